"""A model of CUDA's streams as queues in host memory, to test stream order without a GPU.

Each stream is a thread with random delays, as a GPU's queues are delayed by others. The model implements
what the driver guarantees (CUDA driver API, stream management): work on one stream runs in order; an event
passes when the earlier work on its stream is done; a wait uses the event's state at the time of the call;
a stream waits for a word, (int)(word - value) >= 0, and writes one after all earlier work. Calls that need
a context fail without one. "GPU memory" is host memory that another process can map.

With CUDA_DEVICE_MAX_CONNECTIONS=1 all copies use one queue, and all else another, in the order of the
calls: an entry that waits blocks all later entries, whatever their stream. Copies of less than 32 KiB, and
those within a GPU, are not queued among the copies. Waits, events and writes of words use the queue that
their stream used last. H200s do that (driver 580.159.04), and with more connections wherever two streams
share one; but there copies to the host have a queue of their own, small ones too. A small copy from the host
into a GPU that a stream has to wait for uses either queue here: on H200s it stopped other streams' copies
when many messages were under way, and did not when it was queued behind one wait alone.

It does not model speed, or anything else that a GPU does: the same tests also run on GPUs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import queue
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gdrkit.agent.native.cuda_abi import (
    MEMORY_DEVICE,
    MEMORY_HOST,
    NOT_READY,
    POINTER_BUFFER_ID,
    POINTER_DEVICE_ORDINAL,
    POINTER_MEMORY_TYPE,
)
from gdrkit.transport.native import cuda as native
from gdrkit.transport.native.cuda import Cuda, CudaError

DEVICES = 2
PRELUDE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.transport.driver_model import install
install(int(sys.argv[5]))
"""
_INVALID_VALUE, _INVALID_CONTEXT, _INVALID_HANDLE = 1, 201, 400
_WITHOUT_CONTEXT = ("cuInit", "cuDevice", "cuCtx", "cuDriver")


def install(seed: int) -> None:
    """Make `gdrkit.transport.native.cuda.cuda()` return the model from now on."""
    native.cuda.cache_clear()
    native.Cuda = lambda: Model(seed)  # type: ignore[misc, assignment]


def uninstall() -> None:
    native.cuda.cache_clear()
    native.Cuda = Cuda  # type: ignore[misc]


class _Stream:
    def __init__(self, seed: str) -> None:
        self._draw, self._work = random.Random(seed), queue.SimpleQueue[Callable[[], None] | None]()
        self._given = self._done = 0
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, work: Callable[[], None]) -> None:
        self._given += 1
        self._work.put(work)

    def end(self) -> None:
        """Stop after the work queued so far."""
        self._work.put(None)

    def _run(self) -> None:
        while work := self._work.get():
            if self._draw.random() < 0.2:
                time.sleep(self._draw.random() * 2e-3)
            work()
            self._done += 1

    def is_idle(self) -> bool:
        return self._done == self._given


class _Event:
    def __init__(self) -> None:
        self.passed = threading.Event()
        self.passed.set()


class _Memory(NamedTuple):
    """An allocation. Another process can map it: it is a file in memory."""

    memory: Any
    descriptor: int
    size_bytes: int
    number: int
    device: int | None  # None is the host


class Model(Cuda):
    """libcuda, as far as gdrkit.transport uses it on the paths shared, peer and tcp."""

    def __init__(self, seed: int) -> None:
        self._bound, self._contexts = {}, {}
        self._seed, self._draw = seed, random.Random(seed)
        self._thread = threading.local()
        self._memory: dict[int, _Memory] = {}
        self._registered: set[int] = set()
        self._handles: dict[int, Any] = {0: _Stream(f"{seed} 0")}
        self._latest, self._lock = 1000, threading.Lock()
        one = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"
        self._queues = [_Stream(f"{seed} {name}") for name in ("else", "copies")] if one else []
        self._used: dict[int, bool] = {}  # by stream: whether the queue that it used last is that of copies
        self._get_current = self.function("cuCtxGetCurrent")
        self.exchange_capture_mode = lambda mode: 0

    def function(self, name: str) -> Any:
        if name not in self._bound:
            body: Callable[..., int | None] = getattr(self, f"_{name}")

            def function(*arguments: Any) -> int:
                if not name.startswith(_WITHOUT_CONTEXT) and not getattr(self._thread, "context", 0):
                    return _INVALID_CONTEXT
                try:
                    return body(*arguments) or 0
                except KeyError:
                    return _INVALID_HANDLE

            function.__name__ = name
            self._bound[name] = function
        return self._bound[name]

    def error(self, name: str, result: int) -> CudaError:
        return CudaError(name, result, "the model")

    def _new(self, out: Any, thing: Any) -> None:
        with self._lock:
            self._latest += 1
            handle = self._latest
            self._handles[handle] = thing
        out._obj.value = handle

    def _allocate(self, out: Any, size: int, device: int | None) -> None:
        descriptor = os.memfd_create("gpu")
        os.ftruncate(descriptor, max(1, size))
        self._map(out, descriptor, device)

    def _map(self, out: Any, descriptor: int, device: int | None) -> None:
        size = os.fstat(descriptor).st_size
        memory = (ctypes.c_char * size).from_buffer(mmap.mmap(descriptor, size))
        out._obj.value = ctypes.addressof(memory)
        with self._lock:
            self._latest += 1
            self._memory[out._obj.value] = _Memory(memory, descriptor, size, self._latest, device)

    def _allocations(self, pointer: int) -> list[tuple[int, _Memory]]:
        every = list(self._memory.items())
        return [(base, found) for base, found in every if base <= pointer < base + found.size_bytes]

    def _allocation(self, pointer: int) -> tuple[int, _Memory]:
        return self._allocations(pointer)[0]

    def _cuMemGetAddressRange_v2(self, base: Any, size: Any, pointer: int) -> None:
        base._obj.value, found = self._allocation(pointer)
        size._obj.value = found.size_bytes

    def _cuPointerGetAttribute(self, out: Any, attribute: int, pointer: int) -> None:
        found = self._allocation(pointer)[1]
        kind = MEMORY_HOST if found.device is None else MEMORY_DEVICE
        out._obj.value = {
            POINTER_BUFFER_ID: found.number,
            POINTER_MEMORY_TYPE: kind,
            POINTER_DEVICE_ORDINAL: found.device,
        }[attribute]

    def _cuIpcGetMemHandle(self, out: Any, base: int) -> None:
        found = self._memory[base]  # the number: no handle is that of earlier memory
        text = f"/proc/{os.getpid()}/fd/{found.descriptor}#{found.device}#{found.number}".encode()
        ctypes.memmove(out, text.ljust(64, b"\0"), 64)

    def _cuIpcOpenMemHandle_v2(self, out: Any, handle: Any, flags: int) -> None:
        file, device, _ = bytes(handle).split(b"#")
        self._map(out, os.open(file, os.O_RDWR), int(device))

    def _cuIpcCloseMemHandle(self, address: int) -> None:
        self._cuMemFree_v2(address)

    def _cuDeviceGetByPCIBusId(self, out: Any, address: bytes) -> None:
        out._obj.value = int(address.split(b":")[1], 16)

    def _cuDeviceCanAccessPeer(self, out: Any, one: int, other: int) -> None:
        out._obj.value = 1

    def _cuDeviceGetCount(self, out: Any) -> None:
        out._obj.value = DEVICES

    def _cuDeviceGetPCIBusId(self, text: Any, size: int, device: int) -> None:
        text.value = f"0000:{device:02x}:00.0".encode()

    def _cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        out._obj.value = 1 + device

    def _cuCtxSetCurrent(self, context: int) -> None:
        self._thread.context = context

    def _cuCtxGetCurrent(self, out: Any) -> None:
        out._obj.value = getattr(self._thread, "context", 0)

    def _cuMemAlloc_v2(self, out: Any, size: int) -> None:
        self._allocate(out, size, self._thread.context - 1)

    def _cuMemHostAlloc(self, out: Any, size: int, flags: int) -> None:
        self._allocate(out, size, None)

    def _cuMemFree_v2(self, address: int) -> None:
        os.close(self._memory.pop(address).descriptor)

    _cuMemFreeHost = _cuMemFree_v2

    def _cuMemHostRegister_v2(self, address: int, size: int, flags: int) -> int | None:
        if address in self._registered:
            return _INVALID_VALUE
        self._registered.add(address)
        return None

    def _cuMemHostUnregister(self, address: int) -> None:
        self._registered.remove(address)

    def _cuMemHostGetDevicePointer_v2(self, out: Any, address: int, flags: int) -> None:
        out._obj.value = address

    def _put(self, stream: int, work: Callable[[], object], *, copies: bool | None = None) -> None:
        """Queue work in stream order, and in the order of its hardware queue if that is modelled: of copies,
        of all else, or the one that the stream used last.
        """
        if not self._queues:
            with self._lock:
                self._handles[stream].put(work)
            return
        its_turn, done = threading.Event(), threading.Event()

        def in_queue() -> None:
            its_turn.wait()
            work()
            done.set()

        def in_stream() -> None:
            its_turn.set()
            done.wait()

        with self._lock:  # the same order in both, whichever threads call
            self._used[stream] = self._used.get(stream, False) if copies is None else copies
            self._queues[self._used[stream]].put(in_queue)
            self._handles[stream].put(in_stream)

    def _cuMemcpyAsync(self, to: int, of: int, size: int, stream: int) -> None:
        self._copy(to, of, size, stream, small=size < 32 << 10)

    def _cuMemcpy2DAsync_v2(self, what: Any, stream: int) -> None:
        size = what.width * what.rows
        self._copy(what.destination.device, what.source.device, size, stream, small=False)

    def _copy(self, to: int, of: int, size: int, stream: int, *, small: bool) -> None:
        target, origin = self._device(to), self._device(of)
        if small and origin is None and target is not None and not self._handles[stream].is_idle():
            small = self._draw.random() < 0.5
        within = size and target is not None and target == origin
        self._put(stream, lambda: ctypes.memmove(to, of, size), copies=not small and not within)

    def _device(self, pointer: int) -> int | None:
        return next((found.device for _, found in self._allocations(pointer)), None)

    def _cuMemcpy(self, to: int, of: int, size: int) -> None:
        self._cuStreamSynchronize(0)
        ctypes.memmove(to, of, size)

    def _cuMemsetD8_v2(self, to: int, value: int, size: int) -> None:
        self._cuMemsetD8Async(to, value, size, 0)

    def _cuMemsetD8Async(self, to: int, value: int, size: int, stream: int) -> None:
        self._put(stream, lambda: ctypes.memset(to, value, size), copies=False)

    def _cuStreamCreate(self, out: Any, flags: int) -> None:
        self._new(out, _Stream(f"{self._seed} {self._latest}"))

    def _cuStreamDestroy_v2(self, stream: int) -> None:
        self._handles.pop(stream).end()

    def _cuStreamSynchronize(self, stream: int) -> None:
        while not self._handles[stream].is_idle():
            time.sleep(1e-4)

    def _cuStreamQuery(self, stream: int) -> int:
        return 0 if self._handles[stream].is_idle() else NOT_READY

    def _cuStreamIsCapturing(self, stream: int, out: Any) -> None:
        out._obj.value = 0

    def _cuEventCreate(self, out: Any, flags: int) -> None:
        self._new(out, _Event())

    def _cuEventRecord(self, event: int, stream: int) -> None:
        passed = self._handles[event].passed = threading.Event()
        self._put(stream, passed.set)

    def _cuEventQuery(self, event: int) -> int:
        return 0 if self._handles[event].passed.is_set() else NOT_READY

    def _cuEventSynchronize(self, event: int) -> None:
        self._handles[event].passed.wait()

    def _cuEventDestroy_v2(self, event: int) -> None:
        del self._handles[event]

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        self._put(stream, self._handles[event].passed.wait)

    def _cuStreamWaitValue32_v2(self, stream: int, address: int, value: int, flags: int) -> None:
        word = ctypes.c_uint32.from_address(address)

        def wait() -> None:
            while (word.value - value) % (1 << 32) >= 1 << 31:
                time.sleep(1e-5)

        self._put(stream, wait)

    def _cuStreamWriteValue32_v2(self, stream: int, address: int, value: int, flags: int) -> None:
        word = ctypes.c_uint32.from_address(address)

        def write() -> None:
            word.value = value

        self._put(stream, write)
