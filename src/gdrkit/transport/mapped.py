"""Host memory that a GPU accesses in place, without a copy: pinned, and mapped into the GPU's address space.

With a PCIe GPU each access crosses the link. Where CPU and GPU share their memory (GB10) no link is crossed;
this is from NVIDIA's documents and was not measured.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

from gdrkit.agent.native.cuda_abi import REGISTER_DEVICE_MAP, REGISTER_PORTABLE
from gdrkit.transport.errors import TransportError
from gdrkit.transport.native.cuda import cuda


class MappedMemory:
    """Memory with the buffer protocol for the CPU (NumPy) and `__cuda_array_interface__` for a GPU (CuPy,
    Numba), as unsigned bytes. Every path sends and receives it.

    `address` is the CPU's address (0 once closed), `device_address` the GPU's, `gpu` the CUDA ordinal that
    the memory was mapped for, or None.
    """

    address: int
    size_bytes: int
    gpu: int | None
    device_address: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.gpu is None or not self.address:
            raise AttributeError("this memory is not mapped for a GPU")
        return {
            "shape": (self.size_bytes,),
            "typestr": "|u1",
            "data": (self.device_address, False),
            "strides": None,
            "version": 3,
        }

    def settle(self, stream: int | None) -> None:
        """Wait on the CPU until a stream is idle: no copy on it would wait for a kernel's writes here."""
        if self.gpu is not None and stream:
            with cuda().on(self.gpu):
                cuda().call("cuStreamSynchronize", stream)


class HostMapped(MappedMemory):
    """Memory of `host_mapped`. `close` frees it, and so does dropping the last reference."""

    _free: weakref.finalize[Any, Any]

    if TYPE_CHECKING:

        def __buffer__(self, flags: int) -> memoryview: ...

    def close(self) -> None:
        """Free the memory. No transfer, kernel, array or memoryview may use it any more. May be called
        twice.
        """
        self.address = 0
        self._free()

    def __enter__(self) -> HostMapped:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def host_mapped(size_bytes: int, gpu: int) -> HostMapped:
    """Pinned host memory of this size that the GPU (a CUDA ordinal) reads and writes in place.

    You can send it, receive into it and expose it: every path treats it as host memory, and `verbs`
    registers it as such. `send` and `write` wait for the work queued on their `stream`, including kernels
    that write to this memory. Launch a kernel that reads a received message after `wait`. Raises
    CudaNotAvailable, and CudaError if the driver refuses.

    Source: CUDA driver API, cuMemHostAlloc with CU_MEMHOSTALLOC_DEVICEMAP and CU_MEMHOSTALLOC_PORTABLE.
    """
    if size_bytes <= 0:
        raise TransportError(f"not a valid size: {size_bytes} bytes")
    with cuda().on(gpu):
        address = cuda().number("cuMemHostAlloc", size_bytes, REGISTER_DEVICE_MAP | REGISTER_PORTABLE)
        device_address = cuda().number("cuMemHostGetDevicePointer_v2", address, 0)
    # Before Python 3.12 only a ctypes array gives memory at an address the buffer protocol.
    kind: Any = type("HostMapped", (HostMapped, ctypes.c_uint8 * size_bytes), {})
    made: HostMapped = kind.from_address(address)
    made.address, made.size_bytes, made.gpu = address, size_bytes, gpu
    made._free = weakref.finalize(made, _free, address, gpu)
    made.device_address = device_address
    return made


def _free(address: int, gpu: int) -> None:
    with cuda().on(gpu):
        cuda().call("cuMemFreeHost", address)
