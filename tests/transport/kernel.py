"""A kernel in handwritten PTX that works on host memory in place, and communicates with a CPU while it
runs.
"""

from __future__ import annotations

import ctypes

from gdrkit.transport.native.cuda import cuda

HEAD_BYTES = 64
"""The bytes before the numbers: a flag that the other process sets, and one that the kernel sets."""
THREADS = 256
GIVE_UP_NS = 10_000_000_000

PTX = f"""
.version 7.0
.target sm_70
.address_size 64

// Wait until the first word is set, then replace each number x by 3 x + 1, then set the second word.
.visible .entry answer(.param .u64 window, .param .u64 count)
{{
    .reg .pred %p<5>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [window];
    ld.param.u64 %rd2, [count];
    mov.u32 %r2, %tid.x;
    cvt.u64.u32 %rd3, %r2;
    mov.u64 %rd4, %globaltimer;
    add.u64 %rd4, %rd4, {GIVE_UP_NS};
WAIT:
    ld.acquire.sys.global.u32 %r1, [%rd1];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra LOOP;
    mov.u64 %rd5, %globaltimer;
    setp.lt.u64 %p2, %rd5, %rd4;
    @%p2 bra WAIT;
    ret;
LOOP:
    setp.ge.u64 %p3, %rd3, %rd2;
    @%p3 bra DONE;
    shl.b64 %rd6, %rd3, 2;
    add.u64 %rd6, %rd6, %rd1;
    ld.volatile.global.u32 %r3, [%rd6+{HEAD_BYTES}];
    mad.lo.u32 %r3, %r3, 3, 1;
    st.volatile.global.u32 [%rd6+{HEAD_BYTES}], %r3;
    add.u64 %rd3, %rd3, {THREADS};
    bra LOOP;
DONE:
    membar.sys;
    bar.sync 0;
    setp.ne.u32 %p4, %r2, 0;
    @%p4 bra END;
    mov.u32 %r4, 1;
    st.release.sys.global.u32 [%rd1+4], %r4;
END:
    ret;
}}
"""


class Answer:
    """The kernel on one GPU, launched on its own stream, so that nothing else waits for it."""

    def __init__(self, device: int) -> None:
        self._driver = driver = cuda()
        driver.use(device)
        self._module = driver.number("cuModuleLoadData", PTX.encode())
        self._function = driver.number("cuModuleGetFunction", self._module, b"answer")
        self.stream = driver.number("cuStreamCreate", 1)

    def launch(self, device_address: int, count: int) -> None:
        """Start the kernel, which waits for the first word at this address."""
        window, numbers = ctypes.c_uint64(device_address), ctypes.c_uint64(count)
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(window), ctypes.addressof(numbers))
        self._driver.call(
            "cuLaunchKernel", self._function, 1, 1, 1, THREADS, 1, 1, 0, self.stream, parameters, None
        )

    def close(self) -> None:
        self._driver.call("cuStreamSynchronize", self.stream)
        self._driver.call("cuStreamDestroy_v2", self.stream)
        self._driver.call("cuModuleUnload", self._module)
