"""NVLink and PCIe counters of a GPU, by ctypes on libnvidia-ml, which comes with the driver.

Numbers and layouts are those of nvml.h (nvmlFieldValue_t, NVML_FI_DEV_*), the same since driver 450 for
NVLink; the PCIe byte counters came with 535. nvmlDeviceGetNvLinkUtilizationCounter, the older call, is not
used: nvml.h has it deprecated in favour of these fields.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
NVLINK_DATA_TX, NVLINK_DATA_RX, NVLINK_RAW_TX, NVLINK_RAW_RX = 138, 139, 140, 141
"""KiB since the driver was loaded (nvml.h), of one link, or of all where the scope is ALL_LINKS."""
PCIE_TX_BYTES, PCIE_RX_BYTES = 197, 198
ALL_LINKS = 0xFFFFFFFF
PCIE_NOW_TX, PCIE_NOW_RX = 0, 1
"""nvmlPcieUtilCounter_t: KB/s over the last 20 ms."""
NOT_FOUND = 13  # NVML_ERROR_FUNCTION_NOT_FOUND
_DOUBLE, _UNSIGNED, _LONG, _LONG_LONG = 0, 1, 2, 3  # nvmlValueType_t


class NvmlError(Exception):
    """A call that NVML refused, with its nvmlReturn_t; or there is no NVML."""

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
        """One field's value now, in the unit of nvml.h. `address` is the GPU's PCI address."""
        asked = _Field(field=field, scope=scope)
        self._call("nvmlDeviceGetFieldValues", self._device(address), 1, ctypes.byref(asked))
        if asked.result:
            raise self._error(f"field {field}", asked.result)
        if asked.type == _DOUBLE:
            return int(asked.value.double)
        if asked.type == _UNSIGNED:
            return int(asked.value.unsigned)
        if asked.type in (_LONG, _LONG_LONG):
            return int(asked.value.long_long)
        raise NvmlError(f"field {field}", 0, f"a value of type {asked.type}")

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
    """The one NVML of this process. Raises NvmlError."""
    return Nvml()
