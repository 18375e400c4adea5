"""What a node's ceilings mean for who wonders about a number."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.fabric.ceilings import ports
from gdrkit.fabric.ceilings.interval import Interval, total
from gdrkit.fabric.ceilings.links import both_ways
from gdrkit.fabric.ceilings.node_links import (
    Attachment,
    NicFunction,
    NodeLinks,
    active_ports,
    in_use,
    own_wires,
)

NEARLY_ALL = 0.9
"""From here on one port counts as all that a card's links carry: the middles of intervals are off by up to
8.4 %, docs/estimate.md."""


def remarks(machine: NodeLinks) -> tuple[str, ...]:
    """Sentences about this node, those about cards first."""
    found: list[str] = []
    for functions in machine.cards.values():
        found += _card(functions)
    found += _uplinks(machine)
    for gpu in machine.gpus:
        if gpu.attachment is Attachment.INTEGRATED:
            found.append(
                f"GPU {gpu.address} has no memory of its own that a NIC could reach: buffers lie in host "
                "memory, and nothing is copied out of the GPU."
            )
    return tuple(found)


def _card(functions: tuple[NicFunction, ...]) -> Iterator[str]:
    functions = in_use(functions)
    busy = active_ports(functions)
    links = [wire.link for wire in own_wires(functions).values()]
    if not busy or not links or any(link is None for link in links):
        return
    carried = total(both_ways(link) for link in links if link is not None)
    rate = sum(port.rate_gbit_per_s for port in busy.values())
    shown = [f for f in functions if f.active and f.port is not None]
    yield from _shown_twice(shown, rate)
    if len(busy) > 1 and carried.low_gb_per_s < total(ports.payload(p) for p in busy.values()).low_gb_per_s:
        yield _cables(shown, carried)
    narrow: dict[str, list[NicFunction]] = {}
    for function in shown:
        if (words := _narrow(function)) is not None:
            narrow.setdefault(words, []).append(function)
    for words, those in narrow.items():
        each = "each alone moves" if len(those) > 1 else "alone moves"
        rest = " The rest takes the other link of this card as well." if len(links) > 1 else ""
        yield f"{_names(those)}: {each} {words}{rest}"


def _shown_twice(shown: list[NicFunction], rate: float) -> Iterator[str]:
    """Devices that show the rate of a port which they share."""
    keys = {function.port_key for function in shown}
    if len(keys) < len(shown):
        told = sum(f.port.rate_gbit_per_s for f in shown if f.port)
        whole = "1 port" if len(keys) == 1 else f"{len(keys)} ports"
        yield (
            f"{_names(shown)} show {told:g} Gb/s together, but are {whole} of one card: {rate:g} Gb/s, "
            "however many devices a program uses."
        )


def _cables(shown: list[NicFunction], carried: Interval) -> str:
    """More than one port, and links that carry less than those."""
    busy = active_ports(shown)
    rate = sum(port.rate_gbit_per_s for port in busy.values())
    one = max((ports.payload(p) for p in busy.values()), key=lambda payload: payload.high_gb_per_s)
    wires = own_wires(shown)
    words = "the link of this card carries"
    if len(wires) > 1:
        words = f"the {len(wires)} links of this card carry"
    share = carried.middle_gb_per_s * 8 / rate
    told = f"{_range(carried)} ({carried.low_gb_per_s * 8:.0f} to {carried.high_gb_per_s * 8:.0f} Gb/s)"
    text = (
        f"{_names(shown)}: {words} {told}, so about {share * 100:.0f} % of the {rate:g} Gb/s of "
        f"{len(busy)} cables is the ceiling, and no lack of efficiency."
    )
    if one.high_gb_per_s < NEARLY_ALL * carried.middle_gb_per_s:
        return text
    cable = "second cable" if len(busy) == 2 else "further cable"
    return f"{text} A {cable} buys nothing to speak of: one alone brings {_range(one)}."


def _narrow(function: NicFunction) -> str | None:
    """Of a device whose own link carries less than its port: how much, and why."""
    wire = function.wires[0] if function.wires else None
    if wire is None or wire.link is None or function.port is None:
        return None
    link, port = both_ways(wire.link), ports.payload(function.port)
    if link.high_gb_per_s >= port.low_gb_per_s:
        return None
    return f"{_range(link)}, for its link is PCIe {wire.link}; the port would carry {_range(port)}."


def _uplinks(machine: NodeLinks) -> Iterator[str]:
    """Links of switches that more than one NIC needs for what goes through host memory."""
    wires = {wire.address: wire for function in machine.functions for wire in function.wires[1:]}
    nics = {function.name: function for function in machine.functions}
    for address, wire in wires.items():
        users = [nics[name] for name in machine.users.get(address, ()) if name in nics]
        busy = active_ports(users)
        if wire.link is None or len(busy) < 2:
            continue
        link, wanted = both_ways(wire.link), total(ports.payload(port) for port in busy.values())
        if link.high_gb_per_s < wanted.low_gb_per_s:
            yield (
                f"{_names(users)} share the switch link {address}, PCIe {wire.link}: through host memory "
                f"they move {_range(link)} together, and {_range(wanted)} only between devices behind that "
                "switch."
            )


def _names(functions: list[NicFunction]) -> str:
    names = [function.name for function in functions]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _range(interval: Interval) -> str:
    return f"{interval.low_gb_per_s:.1f} to {interval.high_gb_per_s:.1f} GB/s"
