"""A saved topology's GPUs, ports and links, as ceilings need them: NCCL's XML, lspci's listing.

What the source does not show stays unknown. NCCL's files show the speed and width that a link can have, not
what it runs at, and neither link layer nor MTU of a net. hwloc shows only the product of speed and width."""

from __future__ import annotations

from gdrkit.fabric.ceilings.from_node import COMMON_POINTS, ONE_TO_A_GRACE
from gdrkit.fabric.ceilings.links import PcieLink
from gdrkit.fabric.ceilings.node_links import (
    Attachment,
    CommonPoint,
    LinkedGpu,
    NicFunction,
    NodeLinks,
    PairLinks,
    UpstreamLink,
)
from gdrkit.fabric.ceilings.ports import DOWN, NetworkPort, efa_port
from gdrkit.fabric.topology import graph
from gdrkit.fabric.topology.graph import Net, Role, SmiPath, Topology, TopologyDevice
from gdrkit.fabric.topology.paths import DevicePath, device_path, obstacles, smi_paths
from gdrkit.fabric.topology.products import INTEGRATED, refusal

NOT_STATED = "of a link layer that is not stated"


def node_links(topology: Topology) -> NodeLinks:
    """The GPUs, ports and links of a node. Empty for a source without addresses, such as nvidia-smi's
    matrix."""
    gpus = {gpu.address: _gpu(topology, gpu) for gpu in topology.gpus if gpu.address}
    nets = {net.id: net for net in _nets(topology)}
    functions = {net.id: _function(topology, net) for net in nets.values()}
    pairs = [
        _pair_links(topology, gpu, net, gpus[gpu.address], functions[net.id])
        for gpu in topology.gpus
        for net in nets.values()
        if gpu.address
    ]
    return NodeLinks(tuple(gpus.values()), tuple(functions.values()), tuple(pairs))


def _nets(topology: Topology) -> list[Net]:
    """Ports of RDMA devices; if the source names none, as lspci does not, its NICs by address."""
    named = [net for net in topology.nets if net.address and not net.is_virtual]
    if not topology.nets:
        nics = [device for device in topology.devices if device.role is Role.NIC]
        named = [Net(id=nic.address, device=nic.address, address=nic.address) for nic in nics]
    known = topology.by_address
    return [n for n in named if n.address in known and not known[n.address].physical_function]


def _gpu(topology: Topology, gpu: graph.TopologyGpu) -> LinkedGpu:
    links = _links(topology, gpu.address, idles=True)
    refused = refusal(topology, gpu)
    return LinkedGpu(gpu.address, _attachment(topology, gpu), links, refused.code if refused else "")


def _attachment(topology: Topology, gpu: graph.TopologyGpu) -> Attachment:
    if _is_integrated(topology, gpu):
        return Attachment.INTEGRATED
    if gpu.c2c is None:
        return Attachment.PCIE
    device = topology.by_address.get(gpu.address)
    alone = device is not None and device.device in ONE_TO_A_GRACE
    return Attachment.C2C if alone else Attachment.C2C_SHARED


def _is_integrated(topology: Topology, gpu: graph.TopologyGpu) -> bool:
    return refusal(topology, gpu) is INTEGRATED


def _function(topology: Topology, net: Net) -> NicFunction:
    """One port. If the source does not name the physical port, the PCI function's number identifies it: all
    PCI devices of a card number their functions alike."""
    guid = net.guid.removeprefix("0x")
    card = guid if guid.strip("0:") else ""
    if not card and any(_is_integrated(topology, gpu) for gpu in topology.gpus):
        card = "ConnectX-7"  # the one NIC of such a machine: DGX Spark User Guide
    return NicFunction(
        name=net.id,
        card=card or net.address[:-2],
        links=_links(topology, net.address, idles=False),
        port_name=net.port_name or f"function {net.address[-1]} port {net.number or 1}",
        port=_port(topology, net),
        active=not net.is_down,
        down=net.state if net.state in DOWN else "",
    )


def _port(topology: Topology, net: Net) -> NetworkPort | None:
    """A port by its stated rate; of an Elastic Fabric Adapter, by its PCI id."""
    device, rate = topology.by_address.get(net.address), net.rate_gbit_per_s
    if device is not None and (known := efa_port(device.vendor, device.device, rate or 0.0)) is not None:
        return known
    return NetworkPort(rate_gbit_per_s=rate, link_layer=net.link_layer or NOT_STATED) if rate else None


def _links(topology: Topology, address: str, *, idles: bool) -> tuple[UpstreamLink, ...]:
    """A device's own link, and those of the switches above it, each by its upstream port."""
    device = topology.by_address.get(address)
    if device is None:
        return (UpstreamLink(address[:-2], None),)
    return (
        UpstreamLink(address[:-2], _link(device, idles=idles)),
        *(
            UpstreamLink(port.address, _link(port, idles=False))
            for port in reversed(_upper_ends(topology, address))
        ),
    )


def _upper_ends(topology: Topology, address: str) -> list[TopologyDevice]:
    """The bridges above a device that have a link of their own. A source that names the kinds of ports shows
    the upstream ports; one that shows all ports has a root port first, then two for each switch; of any
    other source, every bridge."""
    return [
        port
        for index, port in enumerate(topology.above(address))
        if port.port == "upstream-port" or (not port.port and (not topology.shows_ports or index % 2))
    ]


def _link(device: TopologyDevice, *, idles: bool) -> PcieLink | None:
    """A link as it runs, where the source shows that; a GPU's at the best of both ends, since it may
    idle."""
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


def _pair_links(
    topology: Topology, graph_gpu: graph.TopologyGpu, net: Net, gpu: LinkedGpu, function: NicFunction
) -> PairLinks:
    common_point = _common_point(smi_paths(topology, graph_gpu, net))
    between = device_path(topology, graph_gpu, net)
    redirected = any(found.code == "acs-redirect" for found in obstacles(topology, graph_gpu, net))
    if common_point is CommonPoint.SWITCH and redirected:
        common_point = CommonPoint.ROOT_COMPLEX
    if common_point is not CommonPoint.SWITCH or between is None:
        return PairLinks(gpu, function, common_point, gpu.links, function.links)
    return PairLinks(gpu, function, common_point, *_below(between, gpu.links, function.links))


def _below(
    between: DevicePath, gpu: tuple[UpstreamLink, ...], nic: tuple[UpstreamLink, ...]
) -> tuple[tuple[UpstreamLink, ...], tuple[UpstreamLink, ...]]:
    """The links below the switch that both share."""
    shared = {device.address for device in between.shared}
    return (
        (*gpu[:1], *(link for link in gpu[1:] if link.address not in shared)),
        (*nic[:1], *(link for link in nic[1:] if link.address not in shared)),
    )


def _common_point(candidates: tuple[SmiPath, ...]) -> CommonPoint:
    found = {COMMON_POINTS[path.value] for path in candidates}
    return found.pop() if len(found) == 1 else CommonPoint.UNKNOWN
