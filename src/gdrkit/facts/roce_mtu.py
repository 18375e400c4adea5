"""The size of RoCE's packets, which follows from the MTU of the port's network interface."""

from __future__ import annotations

from gdrkit.facts.rdma import netdev, nics, ports
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact, if_missing

MTUS = (4096, 2048, 1024, 512, 256)
ROCE_RESERVE_BYTES = 40 + 8 + 12 + 4 + 28 + 4
"""What Linux reserves for headers before it rounds an interface's MTU down: include/rdma/ib_addr.h,
iboe_get_mtu()."""


def roce_mtu(interface_mtu: int) -> int | None:
    """The RDMA MTU that Linux derives from an interface's MTU; None if not even 256 bytes fit."""
    return next((mtu for mtu in MTUS if interface_mtu - ROCE_RESERVE_BYTES >= mtu), None)


@fact
def interface_mtu(node: Node, device: str, number: int) -> int | None:
    """The MTU of a port's network interface. Raises EvidenceMissing."""
    return whole_number(node.text(f"sys/class/net/{netdev(node, device, number)}/mtu").strip())


@fact
def small_mtus(node: Node) -> dict[str, int]:
    """The MTU by interface, of the active RoCE ports that send smaller packets than RoCE has; those that are
    not known are left out."""
    found = {}
    for nic in nics(node):
        for port in if_missing((), ports, node, nic.name):
            if port.state != "ACTIVE" or port.link_layer != "Ethernet":
                continue
            mtu = if_missing(None, interface_mtu, node, nic.name, port.number)
            if mtu is not None and (roce_mtu(mtu) or 0) < MTUS[0]:
                found[netdev(node, nic.name, port.number)] = mtu
    return dict(sorted(found.items()))
