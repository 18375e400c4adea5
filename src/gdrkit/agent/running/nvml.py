"""Which processes compute on which GPU, by libnvidia-ml, which is part of the driver.

It attaches no GPU that the driver has not started (nvml.h, NVML_INIT_FLAG_NO_ATTACH), and it is not loaded
where the driver is not: that would load the driver. Layouts: nvml.h, nvmlPciInfo_t and nvmlProcessInfo_v2_t.
In a container NVML may list no process: that is not told.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Mapping

Emit = Callable[[Mapping[str, Any]], None]

LIBRARY = "libnvidia-ml.so.1"
DRIVER = "/proc/driver/nvidia/version"
_NO_ATTACH = 2
_PROCESSES = 1024
_UNKNOWN_BYTES = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE."""


class _Pci(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("ids", ctypes.c_uint * 2),
        ("name", ctypes.c_char * 32),
    )


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("instances", ctypes.c_uint * 2),
    )


def read(emit: Emit) -> None:
    """Emit each process that computes on a GPU. Raises OSError where there is no driver, or a call fails."""
    os.stat(DRIVER)
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise FileNotFoundError(2, "no " + LIBRARY) from None
    _checked(library.nvmlInitWithFlags(_NO_ATTACH), "nvmlInitWithFlags")
    count = ctypes.c_uint()
    _checked(library.nvmlDeviceGetCount_v2(ctypes.byref(count)), "nvmlDeviceGetCount")
    for index in range(min(count.value, 64)):
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
            continue
        pci = _Pci()
        if library.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(pci)):
            continue
        gpu = "%04x:%02x:%02x.0" % (pci.domain, pci.bus, pci.device)
        number, found = ctypes.c_uint(_PROCESSES), (_Process * _PROCESSES)()
        code = library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(number), found)
        if code:
            emit({"gpu": gpu, "error": code})
            continue
        for one in found[: min(number.value, _PROCESSES)]:
            emit({"gpu": gpu, "pid": one.pid, "bytes": None if one.memory == _UNKNOWN_BYTES else one.memory})


def _checked(code: int, call: str) -> None:
    if code:
        raise OSError(5, "%s returned %d" % (call, code))
