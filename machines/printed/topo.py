"""The matrix of `nvidia-smi topo -m`, from the folders of sysfs.

Form: driver 580. Words: nvml.h, nvmlGpuTopologyLevel_t: PIX is below one switch, PXB below several, PHB
below one host bridge, NODE in one NUMA node, SYS beyond. NVLink is not in sysfs: it is left out.
"""

from __future__ import annotations

import itertools
import os

from machines.printed.files import Files

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def matrix(files: Files, gpus: list[str]) -> str:
    """The matrix of these GPUs and of all RDMA devices; "" if sysfs does not show where they are."""
    nics = {device.name: (device / "device").resolve() for device in files.below("sys/class/infiniband/*")}
    places = {
        f"GPU{number}": files.folder.joinpath("sys/bus/pci/devices", address).resolve()
        for number, address in enumerate(gpus)
    } | {f"NIC{number}": place for number, place in enumerate(nics.values())}
    if not all(place.exists() and "pci" in str(place) for place in places.values()):
        return ""
    numa = {name: files.text(os.path.relpath(place / "numa_node", files.folder.resolve()))
            for name, place in places.items()}  # fmt: skip
    lines = ["\t" + "\t".join(places) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for one, place in places.items():
        cells = [
            "X" if one == other else _between(str(place), str(there), same_numa=numa[one] == numa[other])
            for other, there in places.items()
        ]
        of_gpu = f"\t\t{numa[one]}\t\tN/A" if one.startswith("GPU") else ""
        lines.append(f"{one}\t " + "\t".join(cells) + of_gpu)
    names = [f"  NIC{number}: {name}" for number, name in enumerate(nics)]
    return "\n".join((*lines, LEGEND, *(("NIC Legend:", "", *names) if names else ())))


def _between(one: str, other: str, *, same_numa: bool) -> str:
    """The word for the way between two folders of sysfs."""
    ours, theirs = _functions(one), _functions(other)
    if ours[0] != theirs[0]:
        return "NODE" if same_numa else "SYS"
    pairs = zip(ours, theirs, strict=False)
    common = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    if common == 1 and len(ours) > 1 and len(theirs) > 1:
        return "PHB"
    below = max(len(ours), len(theirs)) - common
    return "PIX" if below <= 2 else "PXB"


def _functions(path: str) -> list[str]:
    """The host bridge, and the functions below it down to the device."""
    parts = path.split("/")
    first = next(index for index, part in enumerate(parts) if part.startswith("pci") and ":" in part)
    return parts[first:]
