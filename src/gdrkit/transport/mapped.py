"""Host memory that a GPU uses in place, with no copy: pinned, and mapped into the GPU's addresses.

Over PCIe each access crosses the link. Where CPU and GPU share their memory (GB10) nothing is crossed,
which is taken from NVIDIA's documents and was not measured.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

from gdrkit.agent.native.cuda_abi import REGISTER_DEVICE_MAP, REGISTER_PORTABLE
from gdrkit.transport.errors import TransportError
from gdrkit.transport.native.cuda import cuda


class MappedMemory:
    """Memory with the buffer protocol for the CPU and `__cuda_array_interface__` for a GPU, of unsigned
    bytes: NumPy takes it by the one, CuPy and Numba by the other, and every path sends and receives it.

    `address` is where the CPU finds it (0 once closed), `device_address` where the GPU does, `gpu` the
    CUDA ordinal that it was mapped for, None for none.
    """

    address: int
    size_bytes: int
    gpu: int | None
    device_address: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.gpu is None or not self.address:
            raise AttributeError("this memory is mapped for no GPU")
        return {
            "shape": (self.size_bytes,),
            "typestr": "|u1",
            "data": (self.device_address, False),
            "strides": None,
            "version": 3,
        }

    def settle(self, stream: int | None) -> None:
        """Wait here until what is queued on a stream is done: no copy waits for a GPU's own writes."""
        if self.gpu is not None and stream:
            with cuda().on(self.gpu):
                cuda().call("cuStreamSynchronize", stream)


class HostMapped(MappedMemory):
    """Memory of `host_mapped`; `close` frees it, as the end of its last reference does."""

    _free: weakref.finalize[Any, Any]

    if TYPE_CHECKING:

        def __buffer__(self, flags: int) -> memoryview: ...

    def close(self) -> None:
        """Free it. Nothing may use it any more: no transfer, no kernel, no array or memoryview made from it.
        May be called twice.
        """
        self.address = 0
        self._free()

    def __enter__(self) -> HostMapped:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def host_mapped(size_bytes: int, gpu: int) -> HostMapped:
    """Pinned host memory of this size that the GPU (a CUDA ordinal) reads and writes in place.

    Send it, receive into it, expose it: it is host memory to every path, and `verbs` registers it as such.
    `send` and `write` wait for what is queued on their `stream`, kernels that write here among it; a kernel
    that reads what was received is to be launched after `wait`. Raises NoCuda, CudaError where the driver
    refuses.

    Source: CUDA driver API, cuMemHostAlloc with CU_MEMHOSTALLOC_DEVICEMAP and CU_MEMHOSTALLOC_PORTABLE.
    """
    if size_bytes <= 0:
        raise TransportError(f"{size_bytes} bytes are no memory")
    with cuda().on(gpu):
        address = cuda().number("cuMemHostAlloc", size_bytes, REGISTER_DEVICE_MAP | REGISTER_PORTABLE)
        device_address = cuda().number("cuMemHostGetDevicePointer_v2", address, 0)
    # An array of ctypes' is the one object of an address that has the buffer protocol before Python 3.12.
    kind: Any = type("HostMapped", (HostMapped, ctypes.c_uint8 * size_bytes), {})
    made: HostMapped = kind.from_address(address)
    made.address, made.size_bytes, made.gpu = address, size_bytes, gpu
    made._free = weakref.finalize(made, _free, address, gpu)
    made.device_address = device_address
    return made


def _free(address: int, gpu: int) -> None:
    with cuda().on(gpu):
        cuda().call("cuMemFreeHost", address)
