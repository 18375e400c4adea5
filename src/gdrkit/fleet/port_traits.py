"""The traits of a node's ports: what NCCL and RoCE need to be equal at both ends of a connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts import flow_control
from gdrkit.facts import link_errors as of_link
from gdrkit.facts import networks as of_interface
from gdrkit.facts.expected_devices import best_port, counted_nics
from gdrkit.facts.rdma import RdmaPort, netdev, roce_v2_gid
from gdrkit.facts.rdma import ports as ports_of
from gdrkit.fleet.hostlist import natural
from gdrkit.node import Node, if_absent, if_missing


def counted(values: Iterable[str]) -> str:
    """Values with how often each occurs: `7 x 400 Gbit/s, DOWN`."""
    counts = Counter(values)
    return ", ".join(f"{count} x {value}" if count > 1 else value for value, count in sorted(counts.items()))


def best_ports(node: Node) -> list[RdmaPort]:
    return [best_port(node, nic.name) for nic in counted_nics(node)]


def ports(node: Node) -> str:
    """The rate of a port that is down means nothing."""

    def words(port: RdmaPort) -> str:
        return f"{port.rate_gbit_per_s:g} Gbit/s" if port.state == "ACTIVE" else port.state

    every = (port for nic in counted_nics(node) for port in ports_of(node, nic.name))
    return counted(words(port) for port in every) or "none"


def link_layers(node: Node) -> str:
    return " and ".join(sorted({port.link_layer for port in in_use(node)})) or "none"


def active(node: Node) -> list[RdmaPort]:
    return [port for port in best_ports(node) if port.state == "ACTIVE"]


def in_use(node: Node) -> list[RdmaPort]:
    """The ports that a job may use, which are compared. Raises EvidenceMissing where all ports are down,
    which another trait covers."""
    found = active(node)
    if not found and counted_nics(node):
        raise EvidenceMissing(Missing("active ports", MissingReason.UNDECIDED, "rdma link"))
    return found


def distinct(values: Iterable[str]) -> str:
    """Each value once: how many ports have it depends on how many are up, which is another trait."""
    return ", ".join(sorted(set(values), key=natural)) or "none"


def nic_count(node: Node) -> str:
    return f"{len(active(node))} active, {len(counted_nics(node))} in all"


def mtus(node: Node) -> str:
    """The MTU of each interface, from which RoCE takes that of its packets: Linux iboe_get_mtu()."""

    def mtu(port: RdmaPort) -> str:
        return node.text(f"sys/class/net/{netdev(node, port.device, port.number)}/mtu").strip()

    return distinct(mtu(port) for port in in_use(node))


def on_ethernet(node: Node) -> list[RdmaPort]:
    return [port for port in in_use(node) if port.link_layer == "Ethernet"]


def interface(node: Node, port: RdmaPort) -> str:
    return netdev(node, port.device, port.number)


def _gids(node: Node) -> list[tuple[int, int] | None]:
    return [roce_v2_gid(node, port.device, port.number) for port in on_ethernet(node)]


def gid_kinds(node: Node) -> str:
    return distinct("RoCE v2 with IPv4" if gid else "no RoCE v2 with IPv4" for gid in _gids(node))


def gid_indexes(node: Node) -> str:
    """Known only where every port has one: that one lacks it is another trait."""
    found = _gids(node)
    if None in found:
        raise EvidenceMissing(Missing("GID of RoCE v2", MissingReason.UNDECIDED, "show_gids"))
    return distinct(str(gid[0]) for gid in found if gid)


def names(node: Node) -> str:
    return " ".join(sorted(nic.name for nic in counted_nics(node))) or "none"


ROUTED = "routed"
NO_ADDRESS = "no address"


def network_of(node: Node, port: RdmaPort) -> str:
    """What another node must share to be reached from a port: its networks, or nothing where a route through
    a gateway leads to others."""
    net = interface(node, port)
    found = of_interface.networks(node, net)
    if found and of_interface.is_routed(node, net):
        return ROUTED
    return " ".join(found) or NO_ADDRESS


def networks(node: Node) -> str:
    return distinct(network_of(node, port) for port in on_ethernet(node))


def network_order(node: Node) -> str:
    """Which of its networks each port is in, by number: `2 1 3`; `sorted` where rails are in order, however
    many are up."""
    found = [network_of(node, port) for port in on_ethernet(node)]
    if {ROUTED, NO_ADDRESS} & set(found):
        raise EvidenceMissing(Missing("order of networks", MissingReason.UNDECIDED, "ip -j addr"))
    numbers = {name: str(number) for number, name in enumerate(sorted(set(found), key=natural), 1)}
    order = [numbers[name] for name in found]
    return " ".join(order) if order != sorted(order, key=int) else "sorted"


def partition_keys(node: Node) -> str:
    infiniband = [port for port in in_use(node) if port.link_layer == "InfiniBand"]
    keys = (flow_control.partition_keys(node, port.device, port.number) for port in infiniband)
    return distinct(keys)


def traffic_class(node: Node) -> str:
    return distinct(flow_control.traffic_class(node, port.device) for port in on_ethernet(node))


def _of_interfaces(read: Callable[[Node, str], str]) -> Callable[[Node], str]:
    """A trait of the interfaces of the active ports."""

    def values(node: Node) -> str:
        return distinct(read(node, interface(node, port)) for port in on_ethernet(node))

    return values


pfc = _of_interfaces(lambda node, net: f"PFC {flow_control.pfc(node, net)}")
priorities = _of_interfaces(flow_control.priorities)
pause = _of_interfaces(flow_control.pause)
ecn = _of_interfaces(flow_control.ecn)


def lost_packets(node: Node) -> str:
    """The worst of the ports."""
    found = {
        flow_control.lost_packets(node, port.device, port.number, interface(node, port))
        for port in on_ethernet(node)
    }
    return max(found, default="none")


def link_errors(node: Node) -> str:
    """The ports that counted more than a few, which are named as on all such nodes. It proves no fault of
    today: since when they count is not known."""
    every = [port for nic in counted_nics(node) for port in ports_of(node, nic.name)]
    found = {
        port.device: errors
        for port in every
        if (errors := if_absent(None, of_link.link_errors, node, port.device, port.number)) is not None
    }
    flaps = if_missing((), of_link.flapping, node)
    if not found and not flaps:
        raise EvidenceMissing(Missing("counters of links", MissingReason.UNDECIDED, "rdma statistic"))
    words = "; ".join(f"{device} {errors}" for device, errors in found.items() if errors)
    counted = (f"{words}, since an unknown time",) if words else ()
    return "; ".join((*counted, *flaps)) or "few"
