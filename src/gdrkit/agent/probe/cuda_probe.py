"""Query the attributes of each GPU from libcuda, and print them as JSON.

The script needs only Python 3.8 and its standard library: it is also sent to machines without gdrkit. It
creates no context and allocates no memory, so it may run beside any job. Run it in a separate process with a
timeout: cuInit hangs if the driver does.

Attributes are queried by number. For one that this libcuda does not know, it returns
CUDA_ERROR_INVALID_VALUE (1), which is recorded too.
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
from .record import Calls

SCHEMA = "gdrkit.probe.cuda/1"

DEVICES_LIMIT = 64  # the largest HGX has 16


def ask(libcuda: Any) -> List[Dict[str, Any]]:
    """Every call of the probe, with its CUresult and value."""
    calls = Calls()
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


def ask_device(libcuda: Any, ordinal: int, calls: Calls) -> None:
    """Query one device's name and attributes. `device` is its PCI address, or `#<ordinal>` if it has
    none."""
    handle = ctypes.c_int(-1)
    result = libcuda.cuDeviceGet(ctypes.byref(handle), ordinal)
    if result:
        calls.add("cuDeviceGet", str(ordinal), f"#{ordinal}", result, None)
        return
    answers = {}
    for number in DEVICE_ATTRIBUTES.values():
        attribute = ctypes.c_int(0)
        result = libcuda.cuDeviceGetAttribute(ctypes.byref(attribute), number, handle)
        answers[number] = (result, attribute.value if result == 0 else None)
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
    """The PCI address as Linux writes it. cuda.h has domain, bus and device; the function is always 0."""
    domain, bus, slot = (
        answers[DEVICE_ATTRIBUTES[name]][1] for name in ("PCI_DOMAIN_ID", "PCI_BUS_ID", "PCI_DEVICE_ID")
    )
    if domain is None or bus is None or slot is None:
        return f"#{ordinal}"
    return f"{domain & 0xFFFFFFFF:04x}:{bus & 0xFF:02x}:{slot & 0x1F:02x}.0"


def main() -> int:
    """Print the results and return 0, even without libcuda: the JSON then has an error."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # all GPUs of the machine, not those of a job
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
