"""A saved topology's GPUs, ports and links, as ceilings need them: NCCL's XML, lspci's listing.

What the source does not say is left open. NCCL's files name the speed and width that a link can have, not
what it runs at, and of a net neither link layer nor MTU. hwloc names the product of both alone."""

from __future__ import annotations

from gdrkit.fabric.ceilings.from_node import COMMON_POINTS, ONE_TO_A_GRACE
from gdrkit.fabric.ceilings.links import PcieLink
from gdrkit.fabric.ceilings.node_links import (
    Attachment,
    CommonPoint,
    LinkedGpu,
    NicFunction,
    NodeLinks,
    PairRoute,
    Wire,
)
from gdrkit.fabric.ceilings.ports import DOWN, NetworkPort
from gdrkit.fabric.topology import graph
from gdrkit.fabric.topology.graph import Net, Role, SmiPath, Topology, TopologyDevice
from gdrkit.fabric.topology.paths import DevicePath, device_path, obstacles, smi_paths
from gdrkit.facts.gpu_ids import INTEGRATED

GB10 = 121
"""Compute capability of the one GPU without memory of its own that NCCL's files may show: NVIDIA, "CUDA GPU
Compute Capability"."""

NOT_STATED = "of a link layer that is not stated"


def node_links(topology: Topology) -> NodeLinks:
    """What moves data in this node. Nothing of a source without addresses, as nvidia-smi's matrix is."""
    gpus = {gpu.address: _gpu(topology, gpu) for gpu in topology.gpus if gpu.address}
    nets = {net.id: net for net in _nets(topology)}
    functions = {net.id: _function(topology, net) for net in nets.values()}
    routes = [
        _route(topology, gpu, net, gpus[gpu.address], functions[net.id])
        for gpu in topology.gpus
        for net in nets.values()
        if gpu.address
    ]
    return NodeLinks(tuple(gpus.values()), tuple(functions.values()), tuple(routes))


def _nets(topology: Topology) -> list[Net]:
    """Ports of RDMA devices; where a source knows none by name, as lspci, its NICs by address."""
    named = [net for net in topology.nets if net.address and not net.is_virtual]
    if not topology.nets:
        nics = [device for device in topology.devices if device.role is Role.NIC]
        named = [Net(id=nic.address, device=nic.address, address=nic.address) for nic in nics]
    known = topology.by_address
    return [n for n in named if n.address in known and not known[n.address].physical_function]


def _gpu(topology: Topology, gpu: graph.TopologyGpu) -> LinkedGpu:
    return LinkedGpu(gpu.address, _attachment(topology, gpu), _wires(topology, gpu.address, idles=True))


def _attachment(topology: Topology, gpu: graph.TopologyGpu) -> Attachment:
    if _is_integrated(topology, gpu):
        return Attachment.INTEGRATED
    if gpu.c2c is None:
        return Attachment.PCIE
    device = topology.by_address.get(gpu.address)
    alone = device is not None and device.device in ONE_TO_A_GRACE
    return Attachment.C2C if alone else Attachment.C2C_SHARED


def _is_integrated(topology: Topology, gpu: graph.TopologyGpu) -> bool:
    device = topology.by_address.get(gpu.address)
    known = device is not None and device.device in INTEGRATED
    return bool(gpu.is_integrated) or known or gpu.compute_capability == GB10


def _function(topology: Topology, net: Net) -> NicFunction:
    """Where the source does not name the physical port, the PCI function's number tells it: a card's further
    PCI devices number their functions as the first one does."""
    guid = net.guid.removeprefix("0x")
    card = guid if guid.strip("0:") else ""
    if not card and any(_is_integrated(topology, gpu) for gpu in topology.gpus):
        card = "ConnectX-7"  # the one NIC of such a machine: DGX Spark User Guide
    rate = net.rate_gbit_per_s
    return NicFunction(
        name=net.id,
        card=card or net.address[:-2],
        wires=_wires(topology, net.address, idles=False),
        port_name=net.port_name or f"function {net.address[-1]} port {net.number or 1}",
        port=NetworkPort(rate_gbit_per_s=rate, link_layer=net.link_layer or NOT_STATED) if rate else None,
        active=net.state in ("ACTIVE", ""),
        down=net.state if net.state in DOWN else "",
    )


def _wires(topology: Topology, address: str, *, idles: bool) -> tuple[Wire, ...]:
    """A device's own link, and those of the switches above it, which stand at their upper ends."""
    device = topology.by_address.get(address)
    if device is None:
        return (Wire(address[:-2], None),)
    return (
        Wire(address[:-2], _link(device, idles=idles)),
        *(Wire(port.address, _link(port, idles=False)) for port in reversed(_upper_ends(topology, address))),
    )


def _upper_ends(topology: Topology, address: str) -> list[TopologyDevice]:
    """The bridges above a device that have a link of their own: upstream ports, where the source tells ports
    apart or shows them all, a root port first and then two for each switch; else every one."""
    return [
        port
        for index, port in enumerate(topology.above(address))
        if port.port == "upstream-port" or (not port.port and (not topology.shows_ports or index % 2))
    ]


def _link(device: TopologyDevice, *, idles: bool) -> PcieLink | None:
    """As it runs, where the source says so; an idle GPU's at what both its ends can do."""
    link = device.link
    now, best = link.gt_per_s, link.max_gt_per_s
    speed = best or now if idles else now or best
    width = link.width or link.max_width
    if not speed or not width:
        return None
    return PcieLink(
        gt_per_s=speed,
        width=width,
        max_payload_bytes=device.payload_bytes,
        read_request_bytes=device.read_request_bytes,
    )


def _route(
    topology: Topology, graph_gpu: graph.TopologyGpu, net: Net, gpu: LinkedGpu, function: NicFunction
) -> PairRoute:
    meeting = _meeting(smi_paths(topology, graph_gpu, net))
    between = device_path(topology, graph_gpu, net)
    redirected = any(found.code == "acs-redirect" for found in obstacles(topology, graph_gpu, net))
    if meeting is CommonPoint.SWITCH and redirected:
        meeting = CommonPoint.ROOT_COMPLEX
    if meeting is not CommonPoint.SWITCH or between is None:
        return PairRoute(gpu, function, meeting, gpu.wires, function.wires)
    return PairRoute(gpu, function, meeting, *_below(between, gpu.wires, function.wires))


def _below(
    between: DevicePath, gpu: tuple[Wire, ...], nic: tuple[Wire, ...]
) -> tuple[tuple[Wire, ...], tuple[Wire, ...]]:
    """The links below the switch that both share."""
    shared = {device.address for device in between.shared}
    return (
        (*gpu[:1], *(wire for wire in gpu[1:] if wire.address not in shared)),
        (*nic[:1], *(wire for wire in nic[1:] if wire.address not in shared)),
    )


def _meeting(words: tuple[SmiPath, ...]) -> CommonPoint:
    found = {COMMON_POINTS[word.value] for word in words}
    return found.pop() if len(found) == 1 else CommonPoint.UNKNOWN
