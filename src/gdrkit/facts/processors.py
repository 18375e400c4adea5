"""NUMA nodes with processors, and the model of the first processor.

Sources: Linux Documentation/ABI/stable/sysfs-devices-node; arch/x86/kernel/cpu/proc.c, show_cpuinfo();
arch/arm64/kernel/cpuinfo.c, c_show().
"""

from __future__ import annotations

from itertools import takewhile

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.commands import LSCPU
from gdrkit.facts.machine import colon_pairs
from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact

NODES = "sys/devices/system/node"
MAX_CPUS = 1 << 16
"""Eight times the maximum of a kernel of 2026 (arch/x86/Kconfig, NR_CPUS up to 8192)."""


class NumaNode(Struct, frozen=True):
    """One NUMA node that has processors."""

    number: int
    cpus: tuple[int, ...]


class CpuModel(Struct, frozen=True):
    """The model of the first processor. None and empty: not shown; Arm has neither family nor model."""

    vendor: str = ""
    family: int | None = None
    model: int | None = None
    name: str = ""


@fact
def numa_nodes(node: Node) -> tuple[NumaNode, ...]:
    """The NUMA nodes that have processors; GPU memory can be a node without. Raises EvidenceMissing."""

    found = []
    for number in parse_list(node.text(f"{NODES}/online")):
        cpus = parse_list(node.text(f"{NODES}/node{number}/cpulist"))
        if cpus:
            found.append(NumaNode(number, cpus))
    return tuple(found)


def parse_list(text: str) -> tuple[int, ...]:
    """`0-3,8` as 0, 1, 2, 3, 8. Source: Linux lib/bitmap.c, bitmap_parselist(). Raises FormatError."""
    numbers: list[int] = []
    for part in text.strip().split(",") if text.strip() else ():
        low, dash, high = part.strip().partition("-")
        first, last = whole_number(low), whole_number(high if dash else low)
        if first is None or last is None:
            raise FormatError(f"not a list of processors: {text[:30]!r}")
        if last < first or last >= MAX_CPUS:
            raise FormatError(f"not a list of processors: {text[:30]!r}")
        numbers.extend(range(first, last + 1))
    return tuple(numbers)


def mask(cpus: tuple[int, ...]) -> str:
    """A mask of processors as sysfs and NCCL write it: words of 32 processors, the highest word first."""
    bits = sum(1 << cpu for cpu in set(cpus))
    words: list[str] = []
    while bits or not words:
        words.append(f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(reversed(words))


@fact
def processor(node: Node) -> CpuModel:
    """The model of the first processor. Raises EvidenceMissing where neither the kernel nor lscpu shows
    it."""
    try:
        values = _first_block(node.text("proc/cpuinfo"))
        names = ("vendor_id", "cpu family", "model", "model name")
        if "CPU implementer" in values:  # 0x41 is Arm Ltd.: Arm ARM, MIDR_EL1
            return CpuModel({"0x41": "ARM", "0x4e": "NVIDIA"}.get(values["CPU implementer"], ""))
    except EvidenceMissing:
        values = _first_block(node.run(LSCPU))
        names = ("Vendor ID", "CPU family", "Model", "Model name")
    vendor, family, model, name = (values.get(key, "") for key in names)
    return CpuModel(vendor, whole_number(family), whole_number(model), name)


def _first_block(text: str) -> dict[str, str]:
    """The `name : value` lines up to the first empty one: in /proc/cpuinfo, the first processor."""
    return colon_pairs("\n".join(takewhile(str.strip, text.lstrip().splitlines())))
