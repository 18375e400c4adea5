"""How two machines such as DGX Sparks are connected: which port leads where, at what rate, what is wrong.

One cable of a DGX Spark is two RDMA devices on two PCIe links, and both of its ports share these two links:
NVIDIA/dgx-spark-playbooks at 0db7c14, connect-two-sparks and multi-sparks-through-switch. What was never run
here is taken from there and from public threads: dgx-spark-playbooks issues 25 and 102.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from gdrkit.fleet.document import SILENT, CabledPort, Cabling, NodeRow, PortPair
from gdrkit.rules.links import UPDATE_FIRMWARE

JUMBO = 4200
"""An interface's MTU from which RoCE sends packets of 4096 bytes: Linux include/rdma/ib_addr.h,
iboe_get_mtu(). With 1500 it sends 1024."""
SET_MTU = "by `sudo ip link set dev NAME mtu 9000`, and for the next boot in netplan"
"""Sources: ip-link(8), `mtu`; netplan-yaml(5), `mtu`. A DGX Spark has netplan: dgx-spark-playbooks,
nvidia/connect-two-sparks."""

KnownBy = Literal["network", "neighbour", "shared", "cable"]
Ends = tuple[CabledPort, CabledPort]
End = tuple[CabledPort, CabledPort, KnownBy]


def cabling(rows: Sequence[NodeRow]) -> Cabling | None:
    """How two nodes are connected; None unless there are two, and both have such ports."""
    answered = [row for row in rows if row.standing not in SILENT]
    if len(answered) != 2 or not all(row.ports for row in answered):
        return None
    one, other = answered
    ends = _ends(_up(one), _up(other))
    rate, limit = _rate([(a, b) for a, b, _ in ends])
    return Cabling(
        nodes=(one.name, other.name),
        pairs=tuple(PortPair(device=a.device, other=b.device, known_by=by) for a, b, by in ends),
        cables=tuple(sorted({(a.name or a.device, b.name or b.device) for a, b, _ in ends})),
        gbit_per_s=rate,
        limited_by=limit,
        problems=tuple(_problems(one, other, ends)),
        notes=tuple(_notes([(a, b) for a, b, _ in ends])),
    )


def _up(row: NodeRow) -> list[CabledPort]:
    return [port for port in row.ports if port.state == "ACTIVE"]


def halves_down(row: NodeRow) -> list[CabledPort]:
    """Ports that are not up, though another device of the same physical port is: its cable has a link."""
    up = {port.name for port in _up(row) if port.name}
    return [port for port in row.ports if port.state != "ACTIVE" and port.name in up]


# -- which port leads where ---------------------------------------------------------------------------------


_KNOWN_BY: tuple[KnownBy, ...] = ("network", "neighbour", "shared")


def _ends(some: Sequence[CabledPort], others: Sequence[CabledPort]) -> list[End]:
    """The ports that reach each other, each at most once, with how that is known."""
    ranked = sorted(
        ((_rank(a, b, some, others), a, b) for a in some for b in others),
        key=lambda item: (item[0], item[1].device != item[2].device, item[1].device, item[2].device),
    )
    found: list[End] = []
    for rank, a, b in ranked:
        if rank < len(_KNOWN_BY) and _is_free(a, b, found):
            found.append((a, b, _KNOWN_BY[rank]))
    cables = {(a.name, b.name) for a, b, _ in found if a.name and b.name}
    for a in some:  # the other device of a cable needs no address: NCCL takes the link-local GIDs then
        for b in others:
            alike = not a.addresses and not b.addresses
            if alike and (a.name, b.name) in cables and _is_free(a, b, found):
                found.append((a, b, "cable"))
    return sorted(found, key=lambda item: (item[0].name, item[0].device))


def _rank(a: CabledPort, b: CabledPort, some: Sequence[CabledPort], others: Sequence[CabledPort]) -> int:
    """0 for the only two ports of a network, 1 for ports of which one has seen the other, 2 for ports in a
    network that has more of them, else 3."""
    networks = _networks(a) & _networks(b)
    if any(_are_only(network, some, others) for network in networks):
        return 0
    if _has_seen(a, b) or _has_seen(b, a):
        return 1
    return 2 if networks else 3


def _has_seen(a: CabledPort, b: CabledPort) -> bool:
    return bool(b.mac) and b.mac in (a.neighbours or ())


def _are_only(network: str, some: Sequence[CabledPort], others: Sequence[CabledPort]) -> bool:
    return all(sum(network in _networks(port) for port in side) == 1 for side in (some, others))


def _is_free(a: CabledPort, b: CabledPort, found: Iterable[End]) -> bool:
    return all(a is not one and b is not other for one, other, _ in found)


def _networks(port: CabledPort) -> set[str]:
    return {str(ipaddress.ip_interface(address).network) for address in port.addresses or ()}


# -- the rate -----------------------------------------------------------------------------------------------


def _rate(ends: Sequence[Ends]) -> tuple[float | None, str]:
    """The most that the connected ports carry in one direction, and what limits it.

    A physical port counts once, however many devices show it, and so does each PCIe link."""
    if not ends:
        return None, ""
    limits: list[tuple[float, str]] = []
    cables = {(a.name or a.device, b.name or b.device): (a, b) for a, b in ends}
    rates = [min(a.rate_gbit_per_s, b.rate_gbit_per_s) for a, b in cables.values()]
    limits.append((sum(rates), f"{len(rates)} cable{'s' if len(rates) > 1 else ''}"))
    for side in (0, 1):
        links = {pair[side].bus: pair[side] for pair in ends}
        known = [port.link_gbit_per_s for port in links.values() if port.link_gbit_per_s is not None]
        if len(known) < len(links):
            return None, ""
        widths = sorted({port.link for port in links.values()})
        words = f"{len(known)} PCIe link{'s' if len(known) > 1 else ''} of {' and '.join(widths)}"
        limits.append((sum(known), words))
    return min(limits, key=lambda limit: limit[0])


# -- what is wrong ------------------------------------------------------------------------------------------


def _problems(one: NodeRow, other: NodeRow, ends: Sequence[End]) -> Iterator[str]:
    """What keeps the nodes from using their cables, with what to do."""
    down = [row for row in (one, other) if not _up(row)]
    for row in down:
        yield f"no port of {row.name} is up: check the cable at both ends, then restart both nodes"
    for row in (one, other):
        for port in halves_down(row):
            yield _bring_up(row.name, port)
    for row in (one, other):
        yield from _narrow_links(row)
    if not ends:
        yield from _smaller_mtu(one, other)
    if down or any(port.addresses is None for row in (one, other) for port in _up(row)):
        return
    bare = [row for row in (one, other) if not any(port.addresses for port in _up(row))]
    for row in bare:
        names = ", ".join(port.interface or port.device for port in _up(row))
        yield f"{row.name} has no address on {names}: give each a network of its own, in netplan"
    if not bare and not ends:
        yield "no port of one node is in a network of the other: ibv_modify_qp fails with 101 or 110"
    for row, peer, side in ((one, other, 0), (other, one, 1)):
        off = {port.name for port in halves_down(peer)}
        cabled = {pair[side].name for a, b, _ in ends if (pair := (a, b))[1 - side].name not in off}
        used = {pair[:2][side].device for pair in ends}
        left = [port.device for port in _up(row) if port.name in cabled and port.device not in used]
        if left:
            yield (
                f"{', '.join(left)} of {row.name} shares no network with the other end of its cable: "
                "half of the cable is unused, or ibv_modify_qp fails with 22, 101 or 110"
            )
    for a, b, _ in ends:
        if a.mtu and b.mtu and a.mtu != b.mtu:
            found = f"{a.interface} has MTU {a.mtu}, {b.interface} at the other end {b.mtu}"
            yield f"{found}: set both to 9000, {SET_MTU}"


def _bring_up(node: str, port: CabledPort) -> str:
    name = port.interface or port.device
    to_have = "MTU 9000" if port.addresses else "an address in the network of its other end and MTU 9000"
    return (
        f"{port.device} of {node} is {port.state}, though the other device of {port.name} is up: half of "
        f"its cable is unused. Bring it up first, by `sudo ip link set dev {name} up`, and give it "
        f"{to_have}, in netplan"
    )


def _narrow_links(row: NodeRow) -> Iterator[str]:
    """PCIe links with less than the machine was built with."""
    slow = [port for port in _up(row) if port.full_link]
    for bus in dict.fromkeys(port.bus for port in slow):
        ports = [port for port in slow if port.bus == bus]
        yield (
            f"{' and '.join(port.device for port in ports)} of {row.name}: their PCIe link is "
            f"{ports[0].link}, built as {ports[0].full_link}. {UPDATE_FIRMWARE}"
        )


def _smaller_mtu(one: NodeRow, other: NodeRow) -> Iterator[str]:
    """A node all of whose ports have a smaller MTU than all of the other: whichever port leads where."""
    for small, large in ((one, other), (other, one)):
        mtus = [port.mtu for port in _up(small)]
        others = [port.mtu for port in _up(large)]
        known = [mtu for mtu in (*mtus, *others) if mtu is not None]
        if not mtus or not others or len(known) < len(mtus) + len(others):
            return
        most, least = max(known[: len(mtus)]), min(known[len(mtus) :])
        if most < least:
            names = ", ".join(sorted({port.interface or port.device for port in _up(small)}))
            yield (
                f"{small.name} has MTU {most} on {names}, {large.name} {least} on its ports: "
                f"set all to 9000, {SET_MTU}"
            )


def _notes(ends: Sequence[Ends]) -> Iterator[str]:
    """What works, and may work better."""
    alike = [pair for pair in ends if pair[0].mtu == pair[1].mtu]  # others are a problem already
    small = sorted({p.interface for pair in alike for p in pair if p.mtu is not None and p.mtu < JUMBO})
    if small:
        found = f"MTU below {JUMBO} on {', '.join(small)}"
        yield f"{found}: 9000 lets RoCE send packets of 4096 bytes, {SET_MTU}"
    for side in (0, 1):
        ports = {pair[side].device: pair[side] for pair in ends}.values()
        shared = {n for p in ports for n in _networks(p) if sum(n in _networks(q) for q in ports) > 1}
        if shared:
            yield (
                f"several ports of a node are in {', '.join(sorted(shared))}: either may answer for the "
                "other; networks of their own avoid that"
            )
            break
    crossed = sorted({(a.name, b.name) for a, b in ends if a.name and b.name and a.name != b.name})
    if crossed:
        words = ", ".join(f"{a} to {b}" for a, b in crossed)
        yield f"crossed cable ({words}): NCCL_IB_HCA differs between the nodes; set it on each by itself"
    if len({(a.name, b.name) for a, b in ends if a.name}) > 1:
        yield "two cables are hardly faster than one: both ports share the same PCIe links"
