"""The CUDA driver's functions that moving bytes needs, each with its result checked.

Names, argument types and constants are those of cuda.h (CUDA 12 and 13). No CUDA toolkit is needed:
libcuda.so.1 comes with the driver. A function that this libcuda lacks is an error of the call, not of the
import.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

LIBRARY = "libcuda.so.1"
SUCCESS, NOT_READY = 0, 600
MEMORY_HOST, MEMORY_DEVICE, MEMORY_UNIFIED = 1, 2, 4
"""CUmemorytype."""
STREAM_NON_BLOCKING, EVENT_DISABLE_TIMING = 1, 2
REGISTER_PORTABLE, REGISTER_DEVICE_MAP = 1, 2
"""CU_MEMHOSTREGISTER_*; CU_MEMHOSTALLOC_* has the same two."""
WAIT_GEQ, WRITE_DEFAULT = 0, 0
"""cuStreamWaitValue32 compares cyclically, (int)(*address - value) >= 0; a default write comes after all
that its stream did before, for the whole system (cuda.h, CUstreamWriteValue_flags).
"""
ATTRIBUTE_MEMORY_TYPE, ATTRIBUTE_SYNC_MEMOPS, ATTRIBUTE_DEVICE_ORDINAL = 2, 6, 9
HANDLE_DMA_BUF, MAP_PCIE = 1, 1
"""CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD; CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE."""

IPC_LAZY_PEER_ACCESS = 1
_QUEUED_AS_COPY = 32 << 10


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle: 64 bytes that another process opens."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


class _Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D: rows of `width` bytes, `pitch` apart, of memory that its address tells the kind of."""

    class _Side(ctypes.Structure):
        _fields_ = (
            ("x", ctypes.c_size_t),
            ("y", ctypes.c_size_t),
            ("kind", ctypes.c_int),
            ("host", ctypes.c_uint64),
            ("device", ctypes.c_uint64),
            ("array", ctypes.c_uint64),
            ("pitch", ctypes.c_size_t),
        )

    _fields_ = (
        ("source", _Side),
        ("destination", _Side),
        ("width", ctypes.c_size_t),
        ("rows", ctypes.c_size_t),
    )

    @classmethod
    def of(cls, to: int, of: int, width: int, rows: int) -> _Copy2D:
        """As many rows, one right after another."""
        sides = (cls._Side(kind=MEMORY_UNIFIED, device=place, pitch=width) for place in (of, to))
        return cls(*sides, width, rows)


_NUMBER, _SIZE, _FLAG, _OUT = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_FLAG,),
    "cuDriverGetVersion": (_OUT,),
    "cuDeviceGet": (_OUT, ctypes.c_int),
    "cuDeviceGetCount": (_OUT,),
    "cuDeviceGetAttribute": (_OUT, ctypes.c_int, ctypes.c_int),
    "cuDeviceGetPCIBusId": (ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    "cuDeviceGetByPCIBusId": (_OUT, ctypes.c_char_p),
    "cuDevicePrimaryCtxRetain": (_OUT, ctypes.c_int),
    "cuDevicePrimaryCtxRelease_v2": (ctypes.c_int,),
    "cuCtxGetCurrent": (_OUT,),
    "cuCtxSetCurrent": (_NUMBER,),
    "cuMemAlloc_v2": (_OUT, _SIZE),
    "cuMemFree_v2": (_NUMBER,),
    "cuMemGetInfo_v2": (_OUT, _OUT),
    "cuMemHostAlloc": (_OUT, _SIZE, _FLAG),
    "cuMemFreeHost": (_NUMBER,),
    "cuMemHostRegister_v2": (_NUMBER, _SIZE, _FLAG),
    "cuMemHostUnregister": (_NUMBER,),
    "cuMemHostGetDevicePointer_v2": (_OUT, _NUMBER, _FLAG),
    "cuMemcpyAsync": (_NUMBER, _NUMBER, _SIZE, _NUMBER),
    "cuMemcpy2DAsync_v2": (ctypes.POINTER(_Copy2D), _NUMBER),
    "cuMemcpy": (_NUMBER, _NUMBER, _SIZE),
    "cuMemsetD8_v2": (_NUMBER, ctypes.c_ubyte, _SIZE),
    "cuStreamCreate": (_OUT, _FLAG),
    "cuStreamDestroy_v2": (_NUMBER,),
    "cuStreamSynchronize": (_NUMBER,),
    "cuStreamQuery": (_NUMBER,),
    "cuStreamIsCapturing": (_NUMBER, _OUT),
    "cuStreamWaitEvent": (_NUMBER, _NUMBER, _FLAG),
    "cuStreamWaitValue32_v2": (_NUMBER, _NUMBER, ctypes.c_uint32, _FLAG),
    "cuStreamWriteValue32_v2": (_NUMBER, _NUMBER, ctypes.c_uint32, _FLAG),
    "cuEventCreate": (_OUT, _FLAG),
    "cuEventRecord": (_NUMBER, _NUMBER),
    "cuEventQuery": (_NUMBER,),
    "cuEventSynchronize": (_NUMBER,),
    "cuEventDestroy_v2": (_NUMBER,),
    "cuPointerGetAttribute": (_OUT, ctypes.c_int, _NUMBER),
    "cuPointerSetAttribute": (_OUT, ctypes.c_int, _NUMBER),
    "cuMemGetAddressRange_v2": (_OUT, _OUT, _NUMBER),
    "cuDeviceCanAccessPeer": (_OUT, ctypes.c_int, ctypes.c_int),
    "cuIpcGetMemHandle": (_OUT, _NUMBER),
    "cuIpcOpenMemHandle_v2": (_OUT, IpcHandle, _FLAG),
    "cuIpcCloseMemHandle": (_NUMBER,),
    "cuModuleLoadData": (_OUT, ctypes.c_char_p),
    "cuModuleGetFunction": (_OUT, _NUMBER, ctypes.c_char_p),
    "cuModuleUnload": (_NUMBER,),
    "cuLaunchKernel": (_NUMBER, *(_FLAG,) * 7, _NUMBER, _OUT, _OUT),
    "cuMemGetHandleForAddressRange": (_OUT, _NUMBER, _SIZE, ctypes.c_int, ctypes.c_ulonglong),
}


class CudaError(Exception):
    """A call that the driver refused: `call`, the CUresult `number`, and the driver's `name` for it."""

    def __init__(self, call: str, number: int, name: str) -> None:
        super().__init__(f"{call} returned {number} ({name})")
        self.call, self.number, self.name = call, number, name


class NoCuda(Exception):
    """There is no usable libcuda; the message says why."""


class Cuda:
    """libcuda, loaded and initialised. Every method raises CudaError on a refusal.

    Contexts are the primary ones, which PyTorch, CuPy and JAX use too, so their pointers are valid here.
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise NoCuda(str(error)) from None
        self._bound: dict[str, Any] = {}
        self._contexts: dict[int, int] = {}
        self.call("cuInit", 0)
        # It only reads a variable of this thread: to give up the interpreter's lock for that takes longer.
        self._get_current = ctypes.PyDLL(LIBRARY).cuCtxGetCurrent
        self._get_current.argtypes = _SIGNATURES["cuCtxGetCurrent"]

    def function(self, name: str) -> Any:
        """The function of that name, with its argument types set; CudaError 500 where libcuda lacks it."""
        if (bound := self._bound.get(name)) is None:
            try:
                bound = getattr(self._library, name)
            except AttributeError:
                raise CudaError(
                    name, 500, "CUDA_ERROR_NOT_FOUND: this libcuda has no such function"
                ) from None
            bound.argtypes, bound.restype = _SIGNATURES[name], ctypes.c_int
            self._bound[name] = bound
        return bound

    def call(self, name: str, *arguments: Any) -> None:
        """Call it; anything but CUDA_SUCCESS is raised."""
        if result := self.function(name)(*arguments):
            raise self.error(name, result)

    def number(self, name: str, *arguments: Any) -> int:
        """Call what writes one number through its first argument, and return that number."""
        out = ctypes.c_uint64()
        if result := self.function(name)(ctypes.byref(out), *arguments):
            raise self.error(name, result)
        return out.value

    def error(self, name: str, result: int) -> CudaError:
        """What to raise for a call that returned this number, with the driver's name for it."""
        text = ctypes.c_char_p()
        known = not self._library.cuGetErrorName(result, ctypes.byref(text)) and text.value
        return CudaError(name, result, known.decode("ascii") if known else "unknown to this driver")

    def device_count(self) -> int:
        return self.number("cuDeviceGetCount")

    def attribute(self, device: int, attribute: int) -> int:
        """cuDeviceGetAttribute; CudaError where the driver does not know the number."""
        return self.number("cuDeviceGetAttribute", attribute, device)

    def address(self, device: int) -> str:
        """A device's PCI address as Linux writes it."""
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, len(text), device)
        return text.value.decode("ascii").lower()

    def context(self, device: int) -> int:
        """The device's primary context, retained once."""
        if (found := self._contexts.get(device)) is None:
            found = self._contexts[device] = self.number("cuDevicePrimaryCtxRetain", device)
        return found

    def use(self, device: int) -> None:
        """Make the device's primary context current in this thread."""
        self.call("cuCtxSetCurrent", self.context(device))

    def on(self, device: int) -> _On:
        """`use` for a block. Afterwards the thread is on the device that its program had chosen."""
        return _On(self, self.context(device))

    def current(self) -> int:
        """The context that is current in this thread; 0 is none."""
        out = ctypes.c_uint64()
        if result := self._get_current(ctypes.byref(out)):
            raise self.error("cuCtxGetCurrent", result)
        return out.value

    def copy(self, to: int, of: int, size_bytes: int, stream: int) -> None:
        """A copy that takes its turn among copies, however small it is.

        cuMemcpyAsync puts less than 32 KiB for a GPU where streams wait for words: with few such queues
        (CUDA_DEVICE_MAX_CONNECTIONS) it stands behind a stream that may be waiting for it. Copies of two
        rows do not (both seen on H200s, driver 580.159.04). A single byte has no two rows.
        """
        half = size_bytes // 2
        if size_bytes >= _QUEUED_AS_COPY or not half:
            self.call("cuMemcpyAsync", to, of, size_bytes, stream)
            return
        self.call("cuMemcpy2DAsync_v2", _Copy2D.of(to, of, half, 2), stream)
        if size_bytes % 2:  # the last two bytes once more
            end = size_bytes - 2
            self.call("cuMemcpy2DAsync_v2", _Copy2D.of(to + end, of + end, 1, 2), stream)

    def map_host(self, address: int, size_bytes: int) -> int:
        """Register host memory, and return where the current device reaches it. None stays registered where
        that is refused."""
        self.call("cuMemHostRegister_v2", address, size_bytes, REGISTER_PORTABLE | REGISTER_DEVICE_MAP)
        try:
            return self.number("cuMemHostGetDevicePointer_v2", address, 0)
        except CudaError:
            self.call("cuMemHostUnregister", address)
            raise

    def release(self) -> None:
        """Give back every primary context that was retained here."""
        while self._contexts:
            device, _ = self._contexts.popitem()
            self.call("cuDevicePrimaryCtxRelease_v2", device)

    def device_of(self, pointer: int) -> int | None:
        """The device whose memory a pointer is in; None for host memory, registered or not."""
        try:
            kind = self.number("cuPointerGetAttribute", ATTRIBUTE_MEMORY_TYPE, pointer)
        except CudaError as error:
            if error.number == 1:  # CUDA_ERROR_INVALID_VALUE: memory that CUDA never heard of
                return None
            raise
        if kind == MEMORY_HOST:
            return None
        return self.number("cuPointerGetAttribute", ATTRIBUTE_DEVICE_ORDINAL, pointer)

    def allocation(self, pointer: int) -> tuple[int, int]:
        """Where the allocation begins that a pointer into GPU memory lies in, and its bytes."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), pointer)
        return base.value, size.value

    def event_done(self, event: int) -> bool:
        """Whether all that was recorded before the event is done; raises what the stream failed with."""
        return self._is_ready("cuEventQuery", event)

    def stream_done(self, stream: int) -> bool:
        """Whether all that was queued on the stream is done; raises what it failed with."""
        return self._is_ready("cuStreamQuery", stream)

    def _is_ready(self, name: str, handle: int) -> bool:
        result: int = self.function(name)(handle)
        if result in (SUCCESS, NOT_READY):
            return result == SUCCESS
        raise self.error(name, result)


class _On:
    """A class, and no generator: it stands in the way of every message, and takes a third of the time."""

    __slots__ = ("_before", "_context", "_driver")

    def __init__(self, driver: Cuda, context: int) -> None:
        self._driver, self._context = driver, context

    def __enter__(self) -> None:
        self._before = self._driver.current()
        if self._before != self._context:
            self._driver.call("cuCtxSetCurrent", self._context)

    def __exit__(self, *error: object) -> None:
        if self._before != self._context:
            self._driver.call("cuCtxSetCurrent", self._before)


@cache
def cuda() -> Cuda:
    """The one libcuda of this process.

    Raises NoCuda where it cannot be loaded, CudaError where cuInit refuses.
    """
    return Cuda()
