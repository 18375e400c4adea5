"""The picture of a node as a tree of boxes: processors above, then host bridges, switches, devices, ports.

Height is distance: the higher a byte has to climb from a GPU on its way to a NIC, the farther the two are.
The boxes below a box stand side by side within its width, in the order of a walk through the tree, so that
no two links cross. Ports of switches are part of their switch; their faults are marks of the device below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from gdrkit.fabric.topo_tree import faults, gpu_words, is_port, link_words, net_words, numa_nodes, numa_words
from gdrkit.fabric.topology.graph import Net, Role, Topology, TopologyDevice, TopologyGpu
from gdrkit.fabric.topology.paths import link_fault
from gdrkit.formats.gpu_slot import gpu_slot
from gdrkit.rules.unusable import WORDS

Kind = Literal["cpu", "bridge", "switch", "gpu", "nic"]

BETWEEN_BRIDGES, BETWEEN_CPUS = 0.35, 0.9
"""Free space beside a host bridge and a processor, in widths of a device."""
NARROWEST_CPU = 3.4
"""Room for the words "no known NUMA node", in widths of a device."""


class Box(Struct, kw_only=True):
    """One box. `left` and `right` are in widths of a device; `level` counts the switches above a switch."""

    kind: Kind
    name: str
    about: str  # all that is known of it
    marks: tuple[str, ...] = ()  # its faults, and those of the ports above it
    lanes: int | None = None  # of the link above it; None if not known, or if it has none
    link: str = ""  # how that link falls short: "x4 of x16"
    net: Net | None = None
    gpu: TopologyGpu | None = None
    rail: int | None = None  # of its port
    below: list[Box] = []
    left: float = 0
    right: float = 0
    level: int = 0

    @property
    def of(self) -> str:
        """The id of its GPU or port; empty for what has none."""
        return self.gpu.id if self.gpu is not None else self.net.id if self.net is not None else ""

    @property
    def unusable(self) -> str:
        """Why no program can use its GPU or NIC, in at most two words; "" if one can, or if not known."""
        end = self.gpu or self.net
        return WORDS.get(end.unusable, "unusable") if end is not None and end.unusable else ""

    @property
    def is_down(self) -> bool:
        """Whether nothing passes through its port: it is not active, or the NIC cannot be used."""
        return self.net is not None and (self.net.is_down or bool(self.unusable))

    @property
    def besides_pcie(self) -> str:
        """The links of a GPU besides PCIe: NV18, C2C."""
        if self.gpu is None:
            return ""
        links = sum(link.count for link in self.gpu.nvlinks or ())
        return "C2C" if self.gpu.c2c is not None else f"NV{links}" if links else ""

    @property
    def rate(self) -> tuple[str, str]:
        """The rate of its port in Gb/s, and the link layer in short; "" for what is not known."""
        if self.net is None:
            return "", ""
        known = self.net.rate_gbit_per_s
        layer = {"InfiniBand": "IB", "Ethernet": "Eth"}.get(self.net.link_layer, "")
        return f"{known:g}" if known is not None else "", layer

    @property
    def port_words(self) -> tuple[str, ...]:
        """Its port in a few short words: the rail, then its state if it is down, else its rate."""
        if self.net is None:
            return ()
        state = (self.net.state, self.net.phys_state) if self.is_down else self.rate
        rail = f"rail {self.rail}" if self.rail is not None else ""
        return tuple(word for word in (rail, *(self.unusable.split() or state)) if word)

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2

    @property
    def redirects(self) -> bool:
        """Whether a port between it and the switch above it sends peer traffic up."""
        return any(mark.startswith("ACS ") for mark in self.marks)

    @property
    def translates(self) -> bool:
        """Whether an IOMMU translates the addresses of a NIC."""
        return any(mark.startswith("IOMMU ") for mark in self.marks)

    def walk(self) -> Iterator[Box]:
        """This box and all below it, from left to right."""
        yield self
        for box in self.below:
            yield from box.walk()


class Picture(Struct, frozen=True):
    """The boxes of a node, one tree for each processor; `width` in widths of a device."""

    cpus: tuple[Box, ...]
    width: float
    switch_levels: int

    def walk(self) -> Iterator[Box]:
        """Every box, from left to right."""
        for cpu in self.cpus:
            yield from cpu.walk()


def picture(topology: Topology, rails: Mapping[str, int] | None = None) -> Picture:
    """The picture of a node: its GPUs and NICs, and what lies above them. Without either, it is empty.
    `rails` has the numbers of ports."""
    tree = _BoxTree(topology)
    cpus = [cpu for number in numa_nodes(topology) if (cpu := tree.cpu(number)).below]
    for box in (box for cpu in cpus for box in cpu.walk() if box.net is not None):
        box.rail = (rails or {}).get(box.of)
    width = 0.0
    for cpu in cpus:
        width = _place(cpu, width + (BETWEEN_CPUS if width else 0))
    levels = [box.level + 1 for cpu in cpus for box in cpu.walk() if box.kind == "switch"]
    return Picture(tuple(cpus), width, max(levels, default=0))


def _place(box: Box, left: float) -> float:
    """Place a box and all below it, from `left` on; returns where it ends."""
    end = left if box.below else left + 1
    for number, below in enumerate(box.below):
        end = _place(below, end + (BETWEEN_BRIDGES if number and box.kind == "cpu" else 0))
    if box.kind == "cpu":
        end = max(end, left + NARROWEST_CPU)
    box.left, box.right = left, end
    return end


class _BoxTree:
    """Builds the boxes of a topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._gpus: dict[str, list[TopologyGpu]] = {}
        self._nets: dict[str, list[Net]] = {}
        for gpu in topology.gpus:
            self._gpus.setdefault(gpu.address, []).append(gpu)
        for net in topology.nets:
            self._nets.setdefault(net.address, []).append(net)

    def cpu(self, number: int | None) -> Box:
        """A NUMA node. Its host bridges with GPUs come first."""
        here = [d for d in self._topology.below.get("", ()) if d.numa_node == number]
        bridges: list[Box] = []
        for bus in dict.fromkeys(device.host_bridge for device in here):
            boxes = _in_order(
                box for d in here if d.host_bridge == bus for box in self._boxes(d, level=0, above=())
            )
            if bus and boxes:
                bridges.append(Box(kind="bridge", name=_short(bus), about=f"host bridge {bus}", below=boxes))
            else:
                bridges += boxes
        bridges += [_nic(net) for net in self._nets.get("", ()) if net.numa_node == number]
        bridges.sort(key=lambda bridge: all(box.kind != "gpu" for box in bridge.walk()))
        about = numa_words(self._topology, number)
        return Box(kind="cpu", name=_plain(about), about=about, below=bridges)

    def _boxes(self, device: TopologyDevice, *, level: int, above: tuple[str, ...]) -> Iterator[Box]:
        """A device, or what is below a port; nothing for what leads to no GPU and no NIC. `above`: the
        faults of the ports above it."""
        marks = (*above, *faults(device))
        below = self._topology.below.get(device.address, ())
        if device.role is Role.GPU:
            found = self._gpus.get(device.address) or [TopologyGpu(id=device.address)]
            yield from (_joined(_gpu(gpu), device, marks) for gpu in found)
        elif device.role is Role.NIC:
            nets = self._nets.get(device.address) or [Net(id="", device="", address=device.address)]
            yield from (_joined(_nic(net), device, marks) for net in nets)
        elif is_port(self._topology, device):
            for child in below:
                yield from self._boxes(child, level=level, above=marks)
        else:
            boxes = _in_order(
                box for child in below for box in self._boxes(child, level=level + 1, above=())
            )
            if boxes:
                about = f"switch {device.name}".rstrip()
                box = Box(kind="switch", name=_short(device.address), about=about, below=boxes, level=level)
                yield _joined(box, device, marks)


def _joined(box: Box, device: TopologyDevice, marks: tuple[str, ...]) -> Box:
    """A box with what is known of its PCI function and its link."""
    box.marks = marks
    box.lanes = device.link.width or device.link.max_width
    box.link = link_fault(device, is_gpu=device.role is Role.GPU)
    address = "" if device.address in box.about else device.address
    box.about = ", ".join(w for w in (box.about, address, link_words(device.link), *marks) if w)
    return box


def _in_order(boxes: Iterable[Box]) -> list[Box]:
    """Switches first, then GPUs, then NICs; each kind in the order of the bus."""
    return sorted(boxes, key=lambda box: ("switch", "gpu", "nic").index(box.kind))


def _gpu(gpu: TopologyGpu) -> Box:
    name = gpu_slot(gpu.index, "") or "GPU"
    return Box(kind="gpu", name=name, about=gpu_words(gpu, address=gpu.address), gpu=gpu)


def _nic(net: Net) -> Box:
    name = net.id or net.netdev or "NIC"
    return Box(kind="nic", name=name, about=net_words(net), net=net)


def _plain(about: str) -> str:
    """A NUMA node with the model of its processor, without architecture, maker and trade marks."""
    where, *rest = about.split("  ")
    model = re.sub(r"\((?:R|TM)\)|\bIntel\b|\bCPU\b|\bProcessor\b|@.*", " ", rest[-1] if rest else "")
    return ", ".join(word for word in (where, " ".join(model.split())) if word)


def _short(address: str) -> str:
    """A PCI address or a root bus without its domain, where that is the first."""
    return address.removeprefix("0000:")
