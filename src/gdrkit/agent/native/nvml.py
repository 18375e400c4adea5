"""libnvidia-ml, which is part of the driver: a GPU's counters of NVLink and PCIe, and the processes on it.

Numbers and layouts are from nvml.h (nvmlFieldValue_t, NVML_FI_DEV_*, nvmlProcessInfo_v2_t).
The fields of NVLink have not changed since driver 450; the PCIe byte counters exist since 535. The older
call nvmlDeviceGetNvLinkUtilizationCounter is not used: nvml.h deprecates it in favour of these fields.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any, Dict, List, Optional, Tuple

LIBRARY = "libnvidia-ml.so.1"
NVLINK_DATA_TX, NVLINK_DATA_RX, NVLINK_RAW_TX, NVLINK_RAW_RX = 138, 139, 140, 141
"""KiB since the driver was loaded (nvml.h), of one link, or of all links with the scope ALL_LINKS."""
PCIE_TX_BYTES, PCIE_RX_BYTES = 197, 198
"""Unsigned 32-bit values: seen to wrap on an H200 with driver 580.159.04."""
PCIE_WRAPS_AT = 1 << 32
ALL_LINKS = 0xFFFFFFFF
PCIE_NOW_TX, PCIE_NOW_RX = 0, 1
"""nvmlPcieUtilCounter_t: KB/s over the last 20 ms."""
NOT_FOUND = 13  # NVML_ERROR_FUNCTION_NOT_FOUND
_DOUBLE, _UNSIGNED, _LONG, _LONG_LONG = 0, 1, 2, 3  # nvmlValueType_t
_PROCESSES = 1024
"""Most processes of a GPU that are listed."""
_UNKNOWN_BYTES = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE."""


class NvmlError(Exception):
    """An NVML call that failed, with its nvmlReturn_t; or NVML is not available (`number` 0)."""

    def __init__(self, call: str, number: int, words: str) -> None:
        super().__init__(f"{call} returned {number} ({words})" if number else f"{call}: {words}")
        self.call, self.number = call, number


class _Value(ctypes.Union):
    _fields_ = (
        ("double", ctypes.c_double),
        ("unsigned", ctypes.c_uint),
        ("long", ctypes.c_ulong),
        ("long_long", ctypes.c_ulonglong),
    )


class _FieldValue(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_uint32),
        ("scope", ctypes.c_uint32),
        ("timestamp", ctypes.c_int64),
        ("latency", ctypes.c_int64),
        ("type", ctypes.c_int),
        ("result", ctypes.c_int),
        ("value", _Value),
    )


class _ComputingProcess(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("instances", ctypes.c_uint * 2),
    )


class Nvml:
    """libnvidia-ml, loaded and initialised. Every method raises NvmlError; GPUs are PCI addresses."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise NvmlError(LIBRARY, 0, str(error)) from None
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        self._devices: Dict[str, ctypes.c_void_p] = {}
        self._call("nvmlInit_v2")

    def processes(self, address: str) -> List[Tuple[int, Optional[int]]]:
        """The processes that compute on a GPU, each with the bytes that it has there; None: not told."""
        number, found = ctypes.c_uint(_PROCESSES), (_ComputingProcess * _PROCESSES)()
        self._call(
            "nvmlDeviceGetComputeRunningProcesses_v3", self._device(address), ctypes.byref(number), found
        )
        return [
            (one.pid, None if one.memory == _UNKNOWN_BYTES else one.memory)
            for one in found[: min(number.value, _PROCESSES)]
        ]

    def field(self, address: str, field: int, scope: int = 0) -> int:
        """One field's current value, in the unit of nvml.h."""
        reading = _FieldValue(field=field, scope=scope)
        self._call("nvmlDeviceGetFieldValues", self._device(address), 1, ctypes.byref(reading))
        if reading.result:
            raise self._error(f"field {field}", reading.result)
        if reading.type == _DOUBLE:
            return int(reading.value.double)
        if reading.type == _UNSIGNED:
            return int(reading.value.unsigned)
        if reading.type in (_LONG, _LONG_LONG):
            return int(reading.value.long_long)
        raise NvmlError(f"field {field}", 0, f"unexpected value type {reading.type}")

    def _device(self, address: str) -> ctypes.c_void_p:
        if address not in self._devices:
            handle = ctypes.c_void_p()
            self._call("nvmlDeviceGetHandleByPciBusId_v2", address.encode("ascii"), ctypes.byref(handle))
            self._devices[address] = handle
        return self._devices[address]

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise NvmlError(name, NOT_FOUND, "this library has no such function") from None
        result = function(*arguments)
        if result:
            raise self._error(name, result)

    def _error(self, call: str, result: int) -> NvmlError:
        words: bytes = self._library.nvmlErrorString(result) or b""
        return NvmlError(call, result, words.decode("ascii", "replace"))


@lru_cache(maxsize=None)
def nvml() -> Nvml:
    """The one NVML instance of this process. Raises NvmlError."""
    return Nvml()
