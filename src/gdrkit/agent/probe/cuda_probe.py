"""Ask libcuda what each GPU can do, and print the answers as JSON. Runs alone: `python3 cuda_probe.py`.

Standard library only, Python 3.8 and later: it is also sent to machines that have nothing else. No context
is made and no memory is taken, so it may run beside any job. Always a process of its own, with a time limit:
cuInit hangs where the driver does.

Sources: cuda.h of CUDA 13 (CUdevice_attribute, CUresult); attributes are asked by number, and one that this
libcuda does not know is answered with CUDA_ERROR_INVALID_VALUE (1), which is an answer too.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any, Dict, List, Optional

SCHEMA = "gdrkit.probe.cuda/1"

LIBRARIES = ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/run/nvidia/driver/usr/lib64/libcuda.so.1")

PCI_BUS_ID, PCI_DEVICE_ID, PCI_DOMAIN_ID = 33, 34, 50

ATTRIBUTES = {
    16: "MULTIPROCESSOR_COUNT",
    18: "INTEGRATED",
    PCI_BUS_ID: "PCI_BUS_ID",
    PCI_DEVICE_ID: "PCI_DEVICE_ID",
    41: "UNIFIED_ADDRESSING",
    PCI_DOMAIN_ID: "PCI_DOMAIN_ID",
    75: "COMPUTE_CAPABILITY_MAJOR",
    76: "COMPUTE_CAPABILITY_MINOR",
    83: "MANAGED_MEMORY",
    86: "HOST_NATIVE_ATOMIC_SUPPORTED",
    88: "PAGEABLE_MEMORY_ACCESS",
    89: "CONCURRENT_MANAGED_ACCESS",
    91: "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM",
    100: "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES",
    101: "DIRECT_MANAGED_MEM_ACCESS_FROM_HOST",
    102: "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
    103: "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED",
    110: "GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED",
    116: "GPU_DIRECT_RDMA_SUPPORTED",
    117: "GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS",
    118: "GPU_DIRECT_RDMA_WRITES_ORDERING",
    124: "DMA_BUF_SUPPORTED",
    130: "NUMA_CONFIG",
    131: "NUMA_ID",
    134: "HOST_NUMA_ID",
    139: "GPU_PCI_DEVICE_ID",
    140: "GPU_PCI_SUBSYSTEM_ID",
    146: "HOST_ALLOC_DMA_BUF_SUPPORTED",
    147: "ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED",
    152: "DMA_BUF_MMAP_SUPPORTED",
    161: "LOCALIZED_MEMORY_SUPPORTED",
}
"""By number, what CU_DEVICE_ATTRIBUTE_ calls it."""

DEVICES_LIMIT = 64  # cuDeviceGetCount gives at most what fits one machine: 16 in the largest HGX


class Calls:
    """The calls made, in order, with what came back."""

    def __init__(self) -> None:
        self.made: List[Dict[str, Any]] = []

    def add(self, call: str, argument: str, device: str, result: int, value: Any) -> None:
        self.made.append(
            {"call": call, "argument": argument, "device": device, "result": result, "value": value}
        )


def load() -> "tuple[Optional[Any], str]":
    """libcuda and its name, or None and why not."""
    complaint = ""
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name), name
        except OSError as error:
            # The linker's words for "not there" are what bundles take for a failed command; so in ours.
            complaint = complaint or str(error).replace("No such file or directory", "not installed")
    return None, complaint


def ask(libcuda: Any) -> List[Dict[str, Any]]:
    """Every call of the probe, with the returned CUresult and value."""
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
    """One device's name and attributes. `device` is its PCI address, or `#<ordinal>` if it has none."""
    handle = ctypes.c_int(-1)
    result = libcuda.cuDeviceGet(ctypes.byref(handle), ordinal)
    if result:
        calls.add("cuDeviceGet", str(ordinal), f"#{ordinal}", result, None)
        return
    answers = {}
    for number in ATTRIBUTES:
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
    parts = [answers[number][1] for number in (PCI_DOMAIN_ID, PCI_BUS_ID, PCI_DEVICE_ID)]
    domain, bus, slot = parts
    if domain is None or bus is None or slot is None:
        return f"#{ordinal}"
    return f"{domain & 0xFFFFFFFF:04x}:{bus & 0xFF:02x}:{slot & 0x1F:02x}.0"


def main() -> int:
    """Print the answers; 0 even where there is no libcuda, which the JSON then says."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # the machine's GPUs, not a job's
    libcuda, words = load()
    report: Dict[str, Any] = {
        "schema": SCHEMA,
        "library": words if libcuda else None,
        "error": "",
        "calls": [],
    }
    if libcuda is None:
        report["error"] = f"no libcuda: {words}"
    else:
        try:
            report["calls"] = ask(libcuda)
        except AttributeError as error:  # a library of that name without the functions
            report["error"] = str(error)
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
