"""A node's GPUs, RDMA devices and links, as ceilings need them.

A value that cannot be read stays unknown and is never guessed: a link's speed, a port's MTU."""

from __future__ import annotations

import re
from typing import TypeVar

from gdrkit.evidence import EvidenceMissing
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
from gdrkit.facts import pci
from gdrkit.facts.gpu import gpu_support, is_coherent, is_integrated
from gdrkit.facts.pci_path import Segment, links_to_root
from gdrkit.facts.pci_registers import acs, config
from gdrkit.facts.rdma import (
    CLASS,
    Pair,
    RdmaDevice,
    below_common_bridge,
    distance,
    is_virtual_function,
    nics,
    phys_port_name,
    ports,
)
from gdrkit.facts.rdma import RdmaPort as _Port
from gdrkit.facts.roce_mtu import interface_mtu, roce_mtu
from gdrkit.formats.pci_express import Express
from gdrkit.node import Node, fact, if_missing
from gdrkit.rules.capabilities import DIRECT
from gdrkit.rules.unusable import unusable_gpu

T = TypeVar("T")

ONE_TO_A_GRACE = ("2342", "2348")
"""PCI ids of GH200; of other coherent GPUs two share a Grace. Source: open-gpu-kernel-modules README.md."""

COMMON_POINTS = {
    "PIX": CommonPoint.SWITCH,
    "PXB": CommonPoint.SWITCH,
    "PHB": CommonPoint.ROOT_COMPLEX,
    "NODE": CommonPoint.ROOT_COMPLEX,
    "SYS": CommonPoint.SOCKETS,
}


@fact
def node_links(node: Node) -> NodeLinks:
    """The GPUs, RDMA devices and links of a node. Raises EvidenceMissing if its GPUs or its RDMA devices
    are not known."""
    gpus = {gpu.address: _gpu(node, gpu) for gpu in pci.gpus(node)}
    one_card = any(gpu.attachment is Attachment.INTEGRATED for gpu in gpus.values())
    functions = {
        device.name: _function(node, device, one_card) for device in nics(node) if _is_whole(node, device)
    }
    return NodeLinks(
        tuple(gpus.values()),
        tuple(functions.values()),
        tuple(_pair_links(node, gpu, function) for gpu in gpus.values() for function in functions.values()),
    )


def _gpu(node: Node, gpu: pci.PciGpu) -> LinkedGpu:
    links = _links(node, gpu.address, idles=True)
    unusable = unusable_gpu(node, gpu, ask_driver=node.host.source != "live") or ""
    return LinkedGpu(gpu.address, _attachment(node, gpu), links, _refusal(node, gpu), unusable)


def _refusal(node: Node, gpu: pci.PciGpu) -> str:
    """The code of why the GPU can be one end of neither direct path; empty if it can, or if unknown."""
    found = [if_missing(None, gpu_support, node, gpu, path) for path in DIRECT]
    refused = [support.code for support in found if support is not None and support.state == "no"]
    return refused[0] if len(refused) == len(found) else ""


def _attachment(node: Node, gpu: pci.PciGpu) -> Attachment:
    if if_missing(False, is_integrated, node, gpu):
        return Attachment.INTEGRATED
    if not if_missing(False, is_coherent, node, gpu):
        return Attachment.PCIE
    return Attachment.C2C if gpu.device_id in ONE_TO_A_GRACE else Attachment.C2C_SHARED


def _is_whole(node: Node, device: RdmaDevice) -> bool:
    """Whether this is not a virtual function: those use the link and port of a physical function listed
    here."""
    return not if_missing(False, is_virtual_function, node, device.name)


def _function(node: Node, device: RdmaDevice, one_card: bool) -> NicFunction:
    """One RDMA device. If functions do not name their card, a machine with a GB10 has one: DGX Spark User
    Guide."""
    links = _links(node, device.pci_address, idles=False) if device.pci_address else ()
    card = device.sys_image_guid if device.sys_image_guid.strip("0:") else ""
    if not card and one_card and device.driver in ("mlx5_core", ""):
        card = "ConnectX-7"
    known = if_missing((), ports, node, device.name)
    port = _active_port(known)
    mtu = if_missing(None, interface_mtu, node, device.name, port.number) if port else None
    return NicFunction(
        name=device.name,
        card=card or device.pci_address[:-2] or device.name,
        links=links,
        port_name=if_missing("", phys_port_name, node, device.name, port.number if port else 1),
        port=_efa(node, device, port) or _port(node, port, mtu) if port else None,
        active=port is not None,
        down=_down(known),
        interface_mtu=mtu,
    )


def _active_port(known: tuple[_Port, ...]) -> _Port | None:
    """The fastest active port; None if there is none, or if it is not known."""
    active = [port for port in known if port.state == "ACTIVE" and port.rate_gbit_per_s > 0]
    return max(active, key=lambda port: port.rate_gbit_per_s, default=None)


def _down(known: tuple[_Port, ...]) -> str:
    """The state of a device's first port, if all of them are known to carry nothing."""
    states = [port.state for port in known]
    return states[0] if states and all(state in DOWN for state in states) else ""


def _efa(node: Node, device: RdmaDevice, port: _Port) -> NetworkPort | None:
    """The port of an Elastic Fabric Adapter, whose PCI id tells its rate; None for any other device."""
    found = if_missing(None, pci.device_at, node, device.pci_address) if device.pci_address else None
    return efa_port(found.vendor, found.device, port.rate_gbit_per_s) if found is not None else None


def _port(node: Node, port: _Port, mtu: int | None) -> NetworkPort:
    """Linux: drivers/infiniband/core/sysfs.c, rate_show(), writes `400 Gb/sec (4X NDR)`."""
    ethernet = port.link_layer == "Ethernet"
    rate = if_missing("", node.text, f"{CLASS}/{port.device}/ports/{port.number}/rate")
    generation = re.search(r"\(\d+X (\w+)\)", rate)
    return NetworkPort(
        rate_gbit_per_s=port.rate_gbit_per_s,
        link_layer=port.link_layer,
        mtu_bytes=roce_mtu(mtu) if ethernet and mtu else None,
        generation=generation[1] if generation and not ethernet else "",
    )


def _links(node: Node, address: str, *, idles: bool) -> tuple[UpstreamLink, ...]:
    """The links above a device. All functions of a device share its own link."""
    try:
        segments = links_to_root(node, address)
    except EvidenceMissing:
        return (UpstreamLink(address[:-2], None),)
    return tuple(
        UpstreamLink(s.address[:-2] if index == 0 else s.address, _link(node, s, idles=idles and index == 0))
        for index, s in enumerate(segments)
    )


def _link(node: Node, segment: Segment, *, idles: bool) -> PcieLink:
    """A link as it runs; a GPU's at the best speed of both ends, since an idle GPU lowers its link's speed
    (and not its width)."""
    express = if_missing(None, lambda: config(node, segment.address).express)
    sizes = express if isinstance(express, Express) else None
    return PcieLink(
        gt_per_s=segment.best_gt_per_s if idles else segment.gt_per_s,
        width=segment.width,
        max_payload_bytes=sizes.payload_bytes if sizes else None,
        read_request_bytes=sizes.read_request_bytes if sizes else None,
    )


def _pair_links(node: Node, gpu: LinkedGpu, function: NicFunction) -> PairLinks:
    common_point = COMMON_POINTS.get(
        if_missing("", distance, node, Pair(gpu.address, function.name)), CommonPoint.UNKNOWN
    )
    if common_point is not CommonPoint.SWITCH:
        return PairLinks(gpu, function, common_point, gpu.links, function.links)
    address = _address(function)
    try:
        _, gpu_side, nic_side = below_common_bridge(node, gpu.address, address)
    except EvidenceMissing:  # nvidia-smi shows the distance; the bridges are not known
        return PairLinks(gpu, function, common_point, gpu.links[:1], function.links[:1])
    if any(_redirects(node, port) for port in (*gpu_side, *nic_side)):
        return PairLinks(gpu, function, CommonPoint.ROOT_COMPLEX, gpu.links, function.links)
    return PairLinks(
        gpu, function, common_point, _below(gpu.links, gpu_side), _below(function.links, nic_side)
    )


def _address(function: NicFunction) -> str:
    return f"{function.links[0].address}.0" if function.links else ""


def _redirects(node: Node, port: str) -> bool:
    """Whether a switch port is known to send peer traffic up to the root complex."""
    found = if_missing(None, acs, node, port)
    return found is not None and found.request_redirect


def _below(links: tuple[UpstreamLink, ...], bridges: tuple[str, ...]) -> tuple[UpstreamLink, ...]:
    """A device's own link, and those of the switches between it and the common point."""
    return (*links[:1], *(link for link in links[1:] if link.address in bridges))
