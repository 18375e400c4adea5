"""A graph as NCCL's topology file.

An NCCL_TOPO_FILE needs only the PCI tree: NCCL adds GPUs and nets itself, and keeps any attribute that the
file already has (NCCL src/graph/xml.cc, xmlInitAttr). So details are left out of a file for NCCL itself, and
written into a file for other readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gdrkit.fabric.topology.from_nccl_xml import ANY_SWITCH
from gdrkit.fabric.topology.graph import (
    DeviceLink,
    Net,
    Role,
    Topology,
    TopologyCpu,
    TopologyDevice,
    TopologyGpu,
    TopologySource,
)
from gdrkit.facts.pci_path import raw_gbit_per_s
from gdrkit.facts.pci_registers import GENERATIONS
from gdrkit.formats.nccl_xml import VERSION
from gdrkit.formats.xml_text import XmlNode

CLASS_OF = {Role.BRIDGE: "060400", Role.GPU: "030200", Role.NIC: "020000", Role.NVSWITCH: "068000"}
"""Classes for devices whose source shows none. Source: topo.cc, kvDictPciClass."""
OWN_PLUGIN = ("efa",)
"""Drivers of NICs that NCCL uses through a plugin, which keeps addresses as they are; NET/IB replaces the
functions of a card by its first (net_ib/init.cc, ncclIbGetPciPath(): function 0 and device 0)."""


class _DeviceTree(Struct, frozen=True):
    """Children by the busid of their parent; "" is a CPU."""

    below: dict[str, list[TopologyDevice]]
    gpus: dict[str, list[TopologyGpu]]
    nets: dict[str, list[Net]]
    links: dict[str, list[str]]
    origin: TopologySource
    with_ports: bool


def system(topology: Topology, *, details: bool | None = None) -> XmlNode:
    """The `system` element, as NCCL would build it, with only the upstream port of each switch.

    `details`: whether <gpu> and <net> are written; None: only if the graph came from a file of NCCL's."""
    tree = _tree(topology, topology.origin is TopologySource.NCCL_XML if details is None else details)
    cpus = list(topology.cpus)
    here = {device.numa_node for device in tree.below.get("", ())}
    here |= {net.numa_node for net in tree.nets.get("", ())}
    for numa_node in sorted(here - {cpu.numa_node for cpu in cpus}, key=str):
        model = cpus[0] if cpus else TopologyCpu(numa_node=None)
        cpus.append(
            TopologyCpu(
                numa_node=numa_node,
                arch=model.arch,
                vendor=model.vendor,
                family=model.family,
                model=model.model,
            )
        )
    elements = tuple(_cpu(cpu, tree) for cpu in cpus)
    if topology.shows_ports:  # NCCL lists only CPUs that have devices
        elements = tuple(element for element in elements if element.children) or elements
    return XmlNode("system", {"version": VERSION}, elements)


def _tree(topology: Topology, details: bool) -> _DeviceTree:
    tree = _DeviceTree({}, {}, {}, {}, topology.origin, topology.shows_ports)
    kept = _kept(topology)
    written: set[str] = set()
    for device in topology.devices:
        busid = _busid(device, topology)
        if device.address in kept and busid not in written:
            written.add(busid)
            tree.below.setdefault(kept[device.address], []).append(device)
    if details:
        for gpu in topology.gpus:
            tree.gpus.setdefault(gpu.address, []).append(gpu)
        for net in topology.nets:
            function = topology.by_address.get(net.address)
            if net.device and (function is not None or not net.address):
                busid = _busid(function, topology) if function else ""
                tree.nets.setdefault(busid, []).append(net)
    for link in topology.peer_links:
        tree.links.setdefault(link.one, []).append(link.other)
    return tree


def _kept(topology: Topology) -> dict[str, str]:
    """The devices that NCCL would show, each with its parent there.

    From GPUs and NICs NCCL goes up two steps at a time: a downstream or root port is skipped, the upstream
    port is kept. Source: xml.cc, ncclTopoGetXmlFromSys()."""
    if not topology.shows_ports:
        return {device.address: device.parent for device in topology.devices}
    kept: dict[str, str] = {}
    pending = [device.address for device in topology.devices if device.role in (Role.GPU, Role.NIC)]
    while pending:
        address = pending.pop()
        if address in kept:
            continue
        above = topology.above(address)
        kept[address] = above[-2].address if len(above) > 1 else ""
        if kept[address]:
            pending.append(kept[address])
    return kept


def _busid(device: TopologyDevice, topology: Topology) -> str:
    """The address under which NCCL looks for a device."""
    if device.role is Role.NIC and topology.shows_ports and device.driver not in OWN_PLUGIN:
        return device.address[:8] + "00.0"
    return device.address


def _cpu(cpu: TopologyCpu, tree: _DeviceTree) -> XmlNode:
    family = cpu.family
    if family is not None and family > 15:  # NCCL combines the two fields of CPUID wrongly: xml.cc
        family = 15 + (family - 15 << 4)
    known = {
        "host_hash": cpu.host_hash,
        "numaid": -1 if cpu.numa_node is None else cpu.numa_node,
        "affinity": cpu.affinity,
        "arch": cpu.arch,
        "vendor": cpu.vendor,
        "familyid": family,
        "modelid": cpu.model,
    }
    children = [_pci(device, tree) for device in tree.below.get("", ()) if device.numa_node == cpu.numa_node]
    nets = [_net(net) for net in tree.nets.get("", ()) if net.numa_node == cpu.numa_node]
    if nets:
        children.append(XmlNode("nic", {}, tuple(nets)))
    return XmlNode("cpu", _attributes(known), tuple(children))


def _pci(device: TopologyDevice, tree: _DeviceTree) -> XmlNode:
    busid = device.address
    if device.role is Role.NIC and tree.with_ports and device.driver not in OWN_PLUGIN:
        busid = busid[:8] + "00.0"
    vendor, _, product = device.subsystem.partition(":")
    kind = device.class_code
    if not kind and tree.origin is not TopologySource.NCCL_XML:
        kind = CLASS_OF.get(device.role, "")
    speed, width = _lanes(device.link)
    known = {
        "busid": busid,
        "class": _hexadecimal(kind),
        "vendor": _hexadecimal(device.vendor),
        "device": _hexadecimal(device.device),
        "subsystem_vendor": _hexadecimal(vendor),
        "subsystem_device": _hexadecimal(product),
    }
    attributes = _attributes(known)
    attributes["link_speed"] = link_speed(speed)
    attributes["link_width"] = str(width or 0)
    return XmlNode("pci", attributes, tuple(_inside(device, busid, tree)))


def _inside(device: TopologyDevice, busid: str, tree: _DeviceTree) -> Iterator[XmlNode]:
    for target in tree.links.get(device.address, ()):
        yield XmlNode("pcilink", {"target": target})
    for gpu in tree.gpus.get(device.address, ()):
        if gpu != TopologyGpu(id=gpu.id, address=gpu.address):  # it has known attributes
            yield _gpu(gpu)
    if nets := tree.nets.get(busid):
        yield XmlNode("nic", {}, tuple(_net(net) for net in nets))
    for below in tree.below.get(device.address, ()):
        yield _pci(below, tree)


def _lanes(link: DeviceLink) -> tuple[float | None, int | None]:
    """Speed and width. If only their product is known, the widest link of at most 16 lanes with that rate;
    NCCL uses the product only."""
    if link.max_gt_per_s is not None or link.max_width is not None or link.gbyte_per_s is None:
        return link.max_gt_per_s, link.max_width
    for width in (16, 8, 4, 2, 1):
        for speed in GENERATIONS.values():
            carried = raw_gbit_per_s(speed, width) / 8
            if 0.99 < carried / link.gbyte_per_s < 1.01:  # hwloc writes six digits
                return speed, width
    return None, None


def link_speed(gt_per_s: float | None) -> str:
    """A speed in the only form that every NCCL since 2.11.4 accepts; empty if not known, for which NCCL
    assumes 8 GT/s. Source: topo.cc, kvDictPciGen."""
    return "" if gt_per_s is None else f"{gt_per_s:.1f} GT/s PCIe"


def _gpu(gpu: TopologyGpu) -> XmlNode:
    known = {
        "dev": gpu.index,
        "sm": gpu.compute_capability,
        "rank": gpu.rank,
        "gdr": None if gpu.gdr is None else int(gpu.gdr),
        "mlopart": gpu.mlopart,
    }
    children = [
        XmlNode(
            "nvlink",
            _attributes(
                {
                    "target": link.target or ANY_SWITCH,
                    "count": link.count,
                    "tclass": _hexadecimal(
                        link.target_class or CLASS_OF[Role.GPU if link.target else Role.NVSWITCH]
                    ),
                }
            ),
        )
        for link in gpu.nvlinks or ()
    ]
    if gpu.c2c is not None:
        children.append(XmlNode("c2c", _attributes({"bw": gpu.c2c.mbyte_per_s, "count": gpu.c2c.count})))
    return XmlNode("gpu", _attributes(known), tuple(children))


def _net(net: Net) -> XmlNode:
    own = net.nccl
    known: dict[str, object] = {"name": net.device}
    if own is not None:
        known |= {"dev": own.dev, "latency": own.latency}
    rate = net.rate_gbit_per_s
    known["speed"] = None if rate is None else round(rate * 1000)
    known |= {"port": net.number, "guid": net.guid}
    if own is not None:
        names = ("maxconn", "gdr", "coll", "net", "gin", "rma", "rail", "plane", "keep")
        known |= {name: getattr(own, name) for name in names}
    return XmlNode("net", _attributes(known))


def _attributes(known: Mapping[str, object]) -> dict[str, str]:
    """The known attributes, as strings."""
    return {name: str(value) for name, value in known.items() if value not in (None, "")}


def _hexadecimal(digits: str) -> str:
    return f"0x{digits}" if digits else ""
