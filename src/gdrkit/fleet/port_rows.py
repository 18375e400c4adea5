"""The ports of a machine that is cabled to another one as it is, such as a DGX Spark, and its settings."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.errors import TargetError
from gdrkit.facts import networks
from gdrkit.facts.expectation import counted_nics
from gdrkit.facts.gpu import is_integrated
from gdrkit.facts.pci import gpus
from gdrkit.facts.pci_path import raw_gbit_per_s
from gdrkit.facts.pci_registers import link
from gdrkit.facts.rdma import RdmaPort, nic_address, phys_port_name, ports, roce_v2_gid
from gdrkit.fleet.document import PortRow, Setting
from gdrkit.fleet.port_traits import interface
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, if_missing
from gdrkit.repair.config.nccl_env import settings
from gdrkit.repair.config.request import ConfigRequest

PORTS_LIMIT = 16
"""Such machines have four; what claims to have many more is compared by its traits alone."""


def port_rows(node: Node) -> tuple[PortRow, ...]:
    """The ports of a machine with an integrated GPU; () for any other, or if they are not known."""
    if not _is_small(node):
        return ()
    found = if_missing((), _ports, node)
    return tuple(_row(node, port) for port in found[:PORTS_LIMIT])


def _ports(node: Node) -> tuple[RdmaPort, ...]:
    return tuple(port for nic in counted_nics(node) for port in ports(node, nic.name))


def settings_of(node: Node) -> tuple[Setting, ...]:
    """What `gdr config nccl-env` says about such a machine."""
    if not _is_small(node):
        return ()
    try:
        found = settings(ConfigRequest(node=node))
    except (EvidenceMissing, TargetError):
        return ()
    return tuple(Setting(name=one.name, value=one.value, why=one.why) for one in found)


def _is_small(node: Node) -> bool:
    return any(if_missing(False, is_integrated, node, gpu) for gpu in if_missing((), gpus, node))


def _row(node: Node, port: RdmaPort) -> PortRow:
    net = if_missing("", interface, node, port)
    card = if_missing(None, networks.card, node, net)
    address = if_missing("", nic_address, node, port.device)
    speed = if_missing(None, link, node, address) if address else None
    gid = if_missing(None, roce_v2_gid, node, port.device, port.number)
    return PortRow(
        device=port.device,
        interface=net,
        name=if_missing("", phys_port_name, node, port.device, port.number),
        state=port.state,
        rate_gbit_per_s=port.rate_gbit_per_s,
        link=f"{speed.current_gt_per_s:g} GT/s x{speed.current_width}" if speed else "",
        link_gbit_per_s=raw_gbit_per_s(speed.current_gt_per_s, speed.current_width) if speed else None,
        bus=address.rpartition(".")[0],
        mtu=if_missing(None, lambda: whole_number(node.text(f"sys/class/net/{net}/mtu").strip())),
        gid=gid[0] if gid else None,
        mac=card.mac if card else "",
        addresses=tuple(map(str, networks.interface_addresses(card))) if card else None,
        neighbours=None
        if networks.addresses_replaced(node)
        else if_missing(None, networks.neighbours, node, net),
    )
