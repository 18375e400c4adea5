"""The path between a GPU and a NIC: its type by nvidia-smi, and its obstacles."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.fabric.topology.graph import Net, SmiPath, Topology, TopologyDevice, TopologyGpu


class DevicePath(Struct, frozen=True):
    """The bridges between two devices. Each side begins next to the shared part."""

    shared: tuple[TopologyDevice, ...]  # bridges above both, the one below the host bridge first
    to_gpu: tuple[TopologyDevice, ...]
    to_net: tuple[TopologyDevice, ...]


class Obstacle(Struct, frozen=True):
    """Something that slows a path down, or may do so. `code` is that of doctor's finding."""

    code: Literal["acs-redirect", "acs-bits-differ", "iommu-translating", "link-degraded"]
    address: str
    seen: str


def device_path(topology: Topology, gpu: TopologyGpu, net: Net) -> DevicePath | None:
    """The bridges between two devices; None if the source shows no tree."""
    if gpu.address not in topology.by_address or net.address not in topology.by_address:
        return None
    first, second = topology.above(gpu.address), topology.above(net.address)
    count = 0
    while count < min(len(first), len(second)) and first[count].address == second[count].address:
        count += 1
    return DevicePath(first[:count], first[count:], second[count:])


def smi_paths(topology: Topology, gpu: TopologyGpu, net: Net) -> tuple[SmiPath, ...]:
    """The path types that `nvidia-smi topo -m` may print for a pair: one, several if the source does not
    show which one applies, () if it shows nothing.

    In a tree with ports, each side's first port belongs to the switch that both share, any further one to
    another switch. NCCL's files have one element per switch."""
    between = device_path(topology, gpu, net)
    if between is None:
        words = {cell.word for cell in topology.stated if (cell.one, cell.other) == (gpu.id, net.id)}
        return tuple(path for path in SmiPath if path in words)
    if between.shared:
        deepest = max(len(between.to_gpu), len(between.to_net))
        near = deepest <= 1 if topology.shows_ports else deepest == 0
        return (SmiPath.PIX if near else SmiPath.PXB,)
    ends = topology.by_address[gpu.address], topology.by_address[net.address]
    return _through_cpu(topology, *ends)


def _through_cpu(topology: Topology, gpu: TopologyDevice, nic: TopologyDevice) -> tuple[SmiPath, ...]:
    if gpu.host_bridge and gpu.host_bridge == nic.host_bridge:
        return (SmiPath.PHB,)
    one_host_bridge_or_two = () if gpu.host_bridge and nic.host_bridge else (SmiPath.PHB,)
    if gpu.numa_node is not None and nic.numa_node is not None:
        if gpu.numa_node != nic.numa_node:
            return (SmiPath.SYS,)
        return (*one_host_bridge_or_two, SmiPath.NODE)
    if len(topology.cpus) == 1:
        return (*one_host_bridge_or_two, SmiPath.NODE)
    return (*one_host_bridge_or_two, SmiPath.NODE, SmiPath.SYS)


def obstacles(topology: Topology, gpu: TopologyGpu, net: Net) -> tuple[Obstacle, ...]:
    """The known obstacles of a pair; for ports that are not known, see `unknown_ports`.

    Ports above the shared switch do not matter: peer traffic stays below them."""
    between = device_path(topology, gpu, net)
    if between is None:
        return ()
    nic, end = topology.by_address[net.address], topology.by_address[gpu.address]
    found = []
    if between.shared:
        found += [
            Obstacle("acs-redirect", port.address, enforced(port))
            for port in (*between.to_gpu, *between.to_net)
            if redirects(port, nic)
        ]
    found += [
        Obstacle("acs-bits-differ", port.address, port.acs_wrong)
        for port in (*between.shared, *between.to_gpu, *between.to_net)
        if port.acs_wrong
    ]
    if nic.iommu_type.startswith("DMA"):
        seen = f"IOMMU group {nic.iommu_group} of type {nic.iommu_type}"
        found.append(Obstacle("iommu-translating", nic.address, seen))
    for device in (*between.to_gpu, end, *between.to_net, nic):
        if seen := link_fault(device, is_gpu=device is end):
            found.append(Obstacle("link-degraded", device.address, seen))
    return tuple(found)


def enforced(port: TopologyDevice) -> str:
    """The ACS bits of a port that affect peer traffic, as lspci prints them: ReqRedir+ CmpltRedir+."""
    bits = (bit for bit in port.acs or () if bit.endswith("Redir") or bit == "DirectTrans")
    return " ".join(f"{bit}+" for bit in bits)


def redirects(port: TopologyDevice, nic: TopologyDevice) -> bool:
    """Whether a port is known to send a NIC's peer traffic up to the root complex.

    With Direct Translated, requests whose address the NIC has translated itself pass (PCI Express Base
    Specification 5.0, 6.12.3)."""
    bits = port.acs or ()
    if port.acs_needed:  # there, redirecting may be what the layout needs
        return False
    if "ReqRedir" not in bits and "CmpltRedir" not in bits:
        return False
    return not ("DirectTrans" in bits and nic.ats_enabled)


def unknown_ports(topology: Topology, gpu: TopologyGpu, net: Net) -> tuple[str, ...]:
    """Ports below the shared switch whose ACS is not known."""
    between = device_path(topology, gpu, net)
    if between is None or not between.shared or not topology.shows_ports:
        return ()
    return tuple(port.address for port in (*between.to_gpu, *between.to_net) if port.acs is None)


def link_fault(device: TopologyDevice, *, is_gpu: bool) -> str:
    """How a link falls short of the maximum of both its ends: "x4 of x16"; empty if it does not, or if
    unknown.

    An idle GPU lowers the speed of its own link, never the width."""
    link = device.link
    if link.is_degraded:
        return f"x{link.width} of x{link.max_width}"
    if link.is_slow and not is_gpu:
        return f"{link.gt_per_s:g} of {link.max_gt_per_s:g} GT/s"
    return ""
