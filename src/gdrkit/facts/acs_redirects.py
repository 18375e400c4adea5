"""Bridges that redirect the traffic between a GPU and a NIC through the CPU."""

from __future__ import annotations

from gdrkit.facts.pci_registers import acs
from gdrkit.facts.rdma import Pair, below_common_bridge, hardware_pairs, nic_address
from gdrkit.node import Node, each_known

REDIRECTS = 0x04 | 0x08 | 0x10
"""P2P Request Redirect, P2P Completion Redirect, Upstream Forwarding: PCI Express Base 5.0, 7.7.8.3."""


def bridges_between(node: Node) -> dict[str, Pair]:
    """The bridges between a GPU and a NIC below one switch, by address, each with the first such pair.

    Bridges above that switch do not matter, and keep their isolation."""
    between: dict[str, Pair] = {}
    for pair in hardware_pairs(node):
        shared, to_gpu, to_nic = below_common_bridge(node, pair.gpu, nic_address(node, pair.device))
        for bridge in (*to_gpu, *to_nic) if shared else ():
            between.setdefault(bridge, pair)
    return between


def redirect_control(node: Node, bridge: str) -> int:
    """The ACS Control Register of a bridge that redirects; 0 if it does not. Raises EvidenceMissing."""
    found = acs(node, bridge)
    return found.control if found is not None and found.control & REDIRECTS else 0


def redirecting(node: Node) -> dict[str, int]:
    """ACS Control Registers, by address, of the bridges between that redirect.

    Bridges whose registers are not readable are left out."""
    found = each_known(lambda bridge: (bridge, redirect_control(node, bridge)), bridges_between(node))
    return {bridge: control for bridge, control in found if control}
