"""Ask libcuda what each GPU can do, and print the answers as JSON.

Standard library only, Python 3.8 and later: it is also sent to machines that have nothing else. No context
is made and no memory is taken, so it may run beside any job. Always a process of its own, with a time limit:
cuInit hangs where the driver does.

Attributes are asked by number, and one that this libcuda does not know is answered with
CUDA_ERROR_INVALID_VALUE (1), which is an answer too.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any, Dict, List, Optional

from ..native.cuda import load
from ..native.cuda_abi import DEVICE_ATTRIBUTES
from ..native.library import complaint

SCHEMA = "gdrkit.probe.cuda/1"

DEVICES_LIMIT = 64  # cuDeviceGetCount gives at most what fits one machine: 16 in the largest HGX


class CudaCalls:
    """The calls made, in order, with what came back."""

    def __init__(self) -> None:
        self.made: List[Dict[str, Any]] = []

    def add(self, call: str, argument: str, device: str, result: int, value: Any) -> None:
        self.made.append(
            {"call": call, "argument": argument, "device": device, "result": result, "value": value}
        )


def ask(libcuda: Any) -> List[Dict[str, Any]]:
    """Every call of the probe, with the returned CUresult and value."""
    calls = CudaCalls()
    version, count = ctypes.c_int(-1), ctypes.c_int(-1)
    result = libcuda.cuDriverGetVersion(ctypes.byref(version))
    calls.add("cuDriverGetVersion", "", "", result, version.value if result == 0 else None)
    result = libcuda.cuInit(0)
    calls.add("cuInit", "0", "", result, None)
    if result:
        return calls.made
    result = libcuda.cuDeviceGetCount(ctypes.byref(count))
    calls.add("cuDeviceGetCount", "", "", result, count.value if result == 0 else None)
    for ordinal in range(min(count.value, DEVICES_LIMIT) if result == 0 else 0):
        ask_device(libcuda, ordinal, calls)
    return calls.made


def ask_device(libcuda: Any, ordinal: int, calls: CudaCalls) -> None:
    """One device's name and attributes. `device` is its PCI address, or `#<ordinal>` if it has none."""
    handle = ctypes.c_int(-1)
    result = libcuda.cuDeviceGet(ctypes.byref(handle), ordinal)
    if result:
        calls.add("cuDeviceGet", str(ordinal), f"#{ordinal}", result, None)
        return
    answers = {}
    for number in DEVICE_ATTRIBUTES.values():
        word = ctypes.c_int(0)
        result = libcuda.cuDeviceGetAttribute(ctypes.byref(word), number, handle)
        answers[number] = (result, word.value if result == 0 else None)
    device = address(answers, ordinal)
    calls.add("cuDeviceGet", str(ordinal), device, 0, ordinal)
    name = ctypes.create_string_buffer(256)
    result = libcuda.cuDeviceGetName(name, len(name), handle)
    calls.add(
        "cuDeviceGetName", "", device, result, name.value.decode("utf-8", "replace") if result == 0 else None
    )
    for number, (result, value) in answers.items():
        calls.add("cuDeviceGetAttribute", str(number), device, result, value)


def address(answers: "Dict[int, tuple[int, Optional[int]]]", ordinal: int) -> str:
    """The PCI address as Linux writes it; cuda.h gives domain, bus and device, and the function is always
    0."""
    domain, bus, slot = (
        answers[DEVICE_ATTRIBUTES[name]][1] for name in ("PCI_DOMAIN_ID", "PCI_BUS_ID", "PCI_DEVICE_ID")
    )
    if domain is None or bus is None or slot is None:
        return f"#{ordinal}"
    return f"{domain & 0xFFFFFFFF:04x}:{bus & 0xFF:02x}:{slot & 0x1F:02x}.0"


def main() -> int:
    """Print the answers; 0 even where there is no libcuda, which the JSON then says."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # the machine's GPUs, not a job's
    report: Dict[str, Any] = {"schema": SCHEMA, "library": None, "error": "", "calls": []}
    try:
        libcuda, report["library"] = load()
    except OSError as error:
        report["error"] = f"no libcuda: {complaint(error)}"
    else:
        try:
            report["calls"] = ask(libcuda)
        except AttributeError as error:  # a library of that name without the functions
            report["error"] = str(error)
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")
    return 0
