"""Topologies as hwloc exports them, `lstopo --of xml`, of versions 1 and 2.

Source: hwloc 2.9 hwloc/topology-xml.c, hwloc__xml_export_object_contents(), and hwloc.dtd, hwloc2.dtd.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.formats import xml_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.xml_text import XmlNode

MAX_SET_BITS = 1 << 14
"""Sets have processors or NUMA nodes; Linux has at most 8192 and 1024 (arch/x86/Kconfig)."""


class PciObject(Struct, frozen=True, kw_only=True):
    """A PCI device, or the PCI side of a bridge. Empty: not in the file."""

    address: str
    class_code: str  # four digits
    vendor: str
    device: str
    subsystem: str  # "10de:16c1"
    gbyte_per_s: float | None  # current speed of the link, one direction; None where it is not known


class HwlocObject(Struct, frozen=True, kw_only=True):
    """One object and its children, in order."""

    type: str  # Machine, Package, NUMANode, Bridge, PCIDev, OSDev, ...
    os_index: int | None = None
    name: str = ""
    osdev_type: str = ""  # 0 block, 1 GPU, 2 network, 3 OpenFabrics, 4 DMA, 5 coprocessor
    cpus: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    pci: PciObject | None = None
    root_bus: str = ""  # "0000:15", of a host bridge
    infos: dict[str, str] = {}
    children: tuple[HwlocObject, ...] = ()


def parse(content: bytes) -> HwlocObject:
    """The machine. Raises FormatError for a file that hwloc did not export."""
    root = xml_text.parse(content)
    if root.name != "topology":
        raise FormatError(f"the outermost element is <{root.name}>, not hwloc's <topology>")
    version = root.get("version", "1.0")
    if version.partition(".")[0] not in ("1", "2"):
        raise FormatError(f"unsupported version of hwloc XML: {version[:10]}; supported are 1 and 2")
    machines = root.all("object")
    if len(machines) != 1:
        raise FormatError(f"expected one outermost object, found {len(machines)}")
    return _object(machines[0])


def _object(node: XmlNode) -> HwlocObject:
    kind = node.get("type")
    upstream, _, _ = node.get("bridge_type").partition("-")
    return HwlocObject(
        type=kind,
        os_index=_number(node, "os_index"),
        name=node.get("name"),
        osdev_type=node.get("osdev_type"),
        cpus=_set(node.get("cpuset")),
        nodes=_set(node.get("nodeset")),
        pci=_pci(node) if node.get("pci_busid") else None,
        root_bus=_root_bus(node) if kind == "Bridge" and upstream == "0" else "",
        infos={info.get("name"): info.get("value") for info in node.all("info")},
        children=tuple(_object(child) for child in node.all("object")),
    )


def _pci(node: XmlNode) -> PciObject:
    busid = re.fullmatch(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", node.get("pci_busid"))
    kind = re.match(
        r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\] \[([0-9a-f]{4}):([0-9a-f]{4})\]",
        node.get("pci_type"),
    )
    if busid is None or kind is None:
        raise FormatError(f"not a PCI device: {node.get('pci_busid')[:20]!r}, {node.get('pci_type')[:40]!r}")
    subsystem = f"{kind[4]}:{kind[5]}"
    return PciObject(
        address=busid[1],
        class_code=kind[1],
        vendor=kind[2],
        device=kind[3],
        subsystem="" if subsystem == "0000:0000" else subsystem,
        gbyte_per_s=_speed(node.get("pci_link_speed")),
    )


def _speed(text: str) -> float | None:
    """A link's speed; hwloc writes 0 where it does not know it."""
    if not text:
        return None
    if not re.fullmatch(r"\d{1,6}(\.\d{1,9})?", text, re.ASCII):
        raise FormatError(f"not a link's speed: {text[:20]!r}")
    return float(text) or None


def _root_bus(node: XmlNode) -> str:
    found = re.match(r"([0-9a-f]{4,8}):\[([0-9a-f]{2})-", node.get("bridge_pci"))
    if found is None:
        raise FormatError(f"not a range of buses: {node.get('bridge_pci')[:20]!r}")
    return f"{found[1]}:{found[2]}"


def _set(text: str) -> tuple[int, ...]:
    """The numbers in `0x0000ffff,0xffffffff,,0x1`: words of 32 bits, the highest first; an empty one is
    zero.

    Source: hwloc/bitmap.c, hwloc_bitmap_snprintf(). "0xf...f" at the front, which means all higher numbers,
    is ignored."""
    words = [word for word in text.split(",") if word != "0xf...f"]
    if len(words) > MAX_SET_BITS // 32:
        raise FormatError(f"a set with a number over {MAX_SET_BITS}")
    if not all(re.fullmatch(r"(0x[0-9a-fA-F]{1,8})?", word) for word in words):
        raise FormatError(f"not a set: {text[:40]!r}")
    bits = int("".join(word[2:].zfill(8) for word in words) or "0", 16)
    return tuple(number for number, bit in enumerate(reversed(f"{bits:b}")) if bit == "1")


def _number(node: XmlNode, attribute: str) -> int | None:
    text = node.get(attribute)
    if not text:
        return None
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII):
        raise FormatError(f"{attribute} is not a number: {text[:20]!r}")
    return int(text)
