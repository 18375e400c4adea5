"""libcuda: its functions and structures. Names and types are those of cuda.h (CUDA 12 and 13).

No CUDA toolkit is needed: libcuda.so.1 comes with the driver. An older one has fewer functions.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Tuple

from .cuda_abi import LIBRARIES, MEMORY_UNIFIED
from .library import load as _load


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle: 64 bytes by which another process opens the memory."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D: rows of `width` bytes, `pitch` apart, in unified memory."""

    class _CopyEnd(ctypes.Structure):
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
        ("source", _CopyEnd),
        ("destination", _CopyEnd),
        ("width", ctypes.c_size_t),
        ("rows", ctypes.c_size_t),
    )

    @classmethod
    def of(cls, to: int, of: int, width: int, rows: int) -> Copy2D:
        """A copy of contiguous rows, from address `of` to address `to`."""
        sides = (cls._CopyEnd(kind=MEMORY_UNIFIED, device=address, pitch=width) for address in (of, to))
        return cls(*sides, width, rows)


_NUMBER, _SIZE, _OUT = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
_INT, _FLAG = ctypes.c_int, ctypes.c_uint
_ARGUMENTS: Dict[str, Tuple[Any, ...]] = {
    "cuInit": (_FLAG,),
    "cuGetErrorName": (_INT, _OUT),
    "cuDriverGetVersion": (_OUT,),
    "cuDeviceGet": (_OUT, _INT),
    "cuDeviceGetCount": (_OUT,),
    "cuDeviceGetAttribute": (_OUT, _INT, _INT),
    "cuDeviceGetName": (ctypes.c_char_p, _INT, _INT),
    "cuDeviceGetPCIBusId": (ctypes.c_char_p, _INT, _INT),
    "cuDeviceGetByPCIBusId": (_OUT, ctypes.c_char_p),
    "cuDevicePrimaryCtxRetain": (_OUT, _INT),
    "cuDevicePrimaryCtxRelease_v2": (_INT,),
    "cuCtxGetCurrent": (_OUT,),
    "cuCtxSetCurrent": (_NUMBER,),
    "cuCtxEnablePeerAccess": (_NUMBER, _FLAG),
    "cuCtxDisablePeerAccess": (_NUMBER,),
    "cuMemAlloc_v2": (_OUT, _SIZE),
    "cuMemFree_v2": (_NUMBER,),
    "cuMemGetInfo_v2": (_OUT, _OUT),
    "cuMemHostAlloc": (_OUT, _SIZE, _FLAG),
    "cuMemFreeHost": (_NUMBER,),
    "cuMemHostRegister_v2": (_NUMBER, _SIZE, _FLAG),
    "cuMemHostUnregister": (_NUMBER,),
    "cuMemHostGetDevicePointer_v2": (_OUT, _NUMBER, _FLAG),
    "cuMemcpyAsync": (_NUMBER, _NUMBER, _SIZE, _NUMBER),
    "cuMemcpy2DAsync_v2": (ctypes.POINTER(Copy2D), _NUMBER),
    "cuMemcpy": (_NUMBER, _NUMBER, _SIZE),
    "cuMemsetD8_v2": (_NUMBER, ctypes.c_ubyte, _SIZE),
    "cuMemsetD8Async": (_NUMBER, ctypes.c_ubyte, _SIZE, _NUMBER),
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
    "cuPointerGetAttribute": (_OUT, _INT, _NUMBER),
    "cuPointerSetAttribute": (_OUT, _INT, _NUMBER),
    "cuMemGetAddressRange_v2": (_OUT, _OUT, _NUMBER),
    "cuDeviceCanAccessPeer": (_OUT, _INT, _INT),
    "cuIpcGetMemHandle": (_OUT, _NUMBER),
    "cuIpcOpenMemHandle_v2": (_OUT, IpcHandle, _FLAG),
    "cuIpcCloseMemHandle": (_NUMBER,),
    "cuModuleLoadData": (_OUT, ctypes.c_char_p),
    "cuModuleGetFunction": (_OUT, _NUMBER, ctypes.c_char_p),
    "cuModuleUnload": (_NUMBER,),
    "cuLaunchKernel": (_NUMBER, *(_FLAG,) * 7, _NUMBER, _OUT, _OUT),
    "cuMemGetHandleForAddressRange": (_OUT, _NUMBER, _SIZE, _INT, ctypes.c_ulonglong),
}
PROTOTYPES = {name: (_INT, arguments) for name, arguments in _ARGUMENTS.items()}
"""Every function returns a CUresult."""


def load(keep_lock: bool = False) -> Tuple[Any, str]:
    """libcuda and the name it was loaded by. With `keep_lock`, its functions do not release the
    interpreter's lock. Raises OSError if it is not installed."""
    return _load(LIBRARIES, PROTOTYPES, ctypes.PyDLL if keep_lock else ctypes.CDLL)
