"""A GPU's NVLink and PCIe counters, through ctypes and libnvidia-ml, which is part of the driver.

Numbers and layouts are from nvml.h (nvmlFieldValue_t, NVML_FI_DEV_*). Those for NVLink have not changed
since driver 450; the PCIe byte counters exist since 535. The older call
nvmlDeviceGetNvLinkUtilizationCounter is not used: nvml.h deprecates it in favour of these fields.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
NVLINK_DATA_TX, NVLINK_DATA_RX, NVLINK_RAW_TX, NVLINK_RAW_RX = 138, 139, 140, 141
"""KiB since the driver was loaded (nvml.h), of one link, or of all links with the scope ALL_LINKS."""
PCIE_TX_BYTES, PCIE_RX_BYTES = 197, 198
ALL_LINKS = 0xFFFFFFFF
PCIE_NOW_TX, PCIE_NOW_RX = 0, 1
"""nvmlPcieUtilCounter_t: KB/s over the last 20 ms."""
NOT_FOUND = 13  # NVML_ERROR_FUNCTION_NOT_FOUND
_DOUBLE, _UNSIGNED, _LONG, _LONG_LONG = 0, 1, 2, 3  # nvmlValueType_t


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


class _Field(ctypes.Structure):
    _fields_ = (
        ("field", ctypes.c_uint32),
        ("scope", ctypes.c_uint32),
        ("timestamp", ctypes.c_int64),
        ("latency", ctypes.c_int64),
        ("type", ctypes.c_int),
        ("result", ctypes.c_int),
        ("value", _Value),
    )


class Nvml:
    """libnvidia-ml, loaded and initialised. Every method raises NvmlError."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise NvmlError(LIBRARY, 0, str(error)) from None
        self._library.nvmlErrorString.restype = ctypes.c_char_p
        self._devices: dict[str, ctypes.c_void_p] = {}
        self._call("nvmlInit_v2")

    def field(self, address: str, field: int, scope: int = 0) -> int:
        """One field's current value, in the unit of nvml.h. `address` is the GPU's PCI address."""
        reading = _Field(field=field, scope=scope)
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
        if result := function(*arguments):
            raise self._error(name, result)

    def _error(self, call: str, result: int) -> NvmlError:
        words: bytes = self._library.nvmlErrorString(result) or b""
        return NvmlError(call, result, words.decode("ascii", "replace"))


@cache
def nvml() -> Nvml:
    """The one NVML instance of this process. Raises NvmlError."""
    return Nvml()
