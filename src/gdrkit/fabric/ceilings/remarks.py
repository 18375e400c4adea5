"""Sentences that explain a node's ceilings."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.fabric.ceilings import ports
from gdrkit.fabric.ceilings.interval import Interval, total
from gdrkit.fabric.ceilings.links import both_ways
from gdrkit.fabric.ceilings.node_links import (
    Attachment,
    LinkedGpu,
    NicFunction,
    NodeLinks,
    active_ports,
    in_use,
    own_links,
)
from gdrkit.fabric.ceilings.paths import chain
from gdrkit.facts.roce_mtu import MTUS
from gdrkit.formats.gpu_slot import gpu_slot

NEARLY_ALL = 0.9
"""From this share on, one port counts as filling a card's links: the middles of intervals are off by up to
8.4 %, docs/estimate.md."""


def remarks(machine: NodeLinks) -> tuple[str, ...]:
    """Sentences about this node, those about cards first."""
    found: list[str] = []
    for functions in machine.cards.values():
        found += _card(functions)
    found += _uplinks(machine)
    found += _small_packets(machine)
    found += _unusable(machine)
    for index, gpu in enumerate(sorted(machine.gpus, key=lambda gpu: gpu.address)):
        if gpu.attachment is Attachment.INTEGRATED:
            found.append(
                f"{gpu_slot(index, gpu.address)} has no memory of its own that a NIC could reach: buffers "
                "are in host memory, and nothing is copied out of the GPU."
            )
        elif gpu.refusal and not gpu.unusable:
            found.append(_without_direct(machine, gpu, gpu_slot(index, gpu.address)))
    return tuple(found)


def _small_packets(machine: NodeLinks) -> Iterator[str]:
    """A remark on RoCE ports whose interface allows smaller packets than RoCE has."""
    largest = MTUS[0]
    by_mtu: dict[tuple[int, int], list[NicFunction]] = {}
    for function in (one for functions in machine.cards.values() for one in functions if one.active):
        port, mtu = function.port, function.interface_mtu
        if mtu and port and port.mtu_bytes and port.mtu_bytes < largest:
            by_mtu.setdefault((mtu, port.mtu_bytes), []).append(function)
    for (mtu, packet), some in by_mtu.items():
        yield (
            f"{_names(some)}: RoCE sends packets of {packet} bytes, since the interface's MTU is {mtu}. "
            f"With 9000 at both ends it sends {largest}: `sudo ip link set dev NAME mtu 9000`."
        )


def _unusable(machine: NodeLinks) -> Iterator[str]:
    """A remark for each reason why no program can use some GPUs."""
    by_code: dict[str, list[str]] = {}
    for index, gpu in enumerate(sorted(machine.gpus, key=lambda gpu: gpu.address)):
        if gpu.unusable:
            by_code.setdefault(gpu.unusable, []).append(gpu_slot(index, gpu.address))
    for code, slots in by_code.items():
        every = len(slots) == len(machine.gpus) > 1
        which = f"any of the {len(slots)} GPUs" if every else ", ".join(slots)
        yield f"No program can use {which} now ({code}): the rates are what the links alone would carry."


def _without_direct(machine: NodeLinks, gpu: LinkedGpu, name: str) -> str:
    """A remark on a GPU that no NIC reaches: what it costs, at its best port, to go through host memory."""
    text = f"{name} has no direct path ({gpu.refusal}): `direct` is what the links alone would carry."
    staged = [chain(machine, pair, "staged") for pair in machine.pairs if pair.gpu.address == gpu.address]
    known = [(one.rate, one) for one in staged if one.rate is not None and not one.unknown]
    if not known:
        return text
    rate, best = max(known, key=lambda found: found[0].high_gb_per_s)
    if not rate.high_gb_per_s:
        return text
    ports_rate = [limit.rate for limit in best.limits if limit.name == "port"]
    costs = ", as much as the port: that costs no bandwidth here" if rate in ports_rate else ""
    return f"{text} Copied through host memory it carries {_range(rate)}{costs}."


def _card(functions: tuple[NicFunction, ...]) -> Iterator[str]:
    functions = in_use(functions)
    busy = active_ports(functions)
    pcie = [link.pcie for link in own_links(functions).values()]
    if not busy or not pcie or any(link is None for link in pcie):
        return
    carried = total(both_ways(link) for link in pcie if link is not None)
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
        each = "each alone carries" if len(those) > 1 else "alone carries"
        rest = " To fill the port, use the other link of this card as well." if len(pcie) > 1 else ""
        yield f"{_names(those)}: {each} {words}{rest}"


def _shown_twice(shown: list[NicFunction], rate: float) -> Iterator[str]:
    """A remark on devices that share a port and each show its rate."""
    keys = {function.port_key for function in shown}
    if len(keys) < len(shown):
        sum_of_rates = sum(f.port.rate_gbit_per_s for f in shown if f.port)
        whole = "1 port" if len(keys) == 1 else f"{len(keys)} ports"
        yield (
            f"{_names(shown)} show {sum_of_rates:g} Gb/s in total, but are {whole} of one card: "
            f"{rate:g} Gb/s, however many devices a program uses."
        )


def _cables(shown: list[NicFunction], carried: Interval) -> str:
    """A remark on a card whose links carry less than its ports."""
    busy = active_ports(shown)
    rate = sum(port.rate_gbit_per_s for port in busy.values())
    one = max((ports.payload(p) for p in busy.values()), key=lambda payload: payload.high_gb_per_s)
    links = own_links(shown)
    words = "the link of this card carries"
    if len(links) > 1:
        words = f"the {len(links)} links of this card carry"
    share = carried.middle_gb_per_s * 8 / rate
    rates = f"{_range(carried)} ({carried.low_gb_per_s * 8:.0f} to {carried.high_gb_per_s * 8:.0f} Gb/s)"
    text = (
        f"{_names(shown)}: {words} {rates}, so the ceiling is about {share * 100:.0f} % of the "
        f"{rate:g} Gb/s of {len(busy)} cables. That is not a fault."
    )
    if one.high_gb_per_s < NEARLY_ALL * carried.middle_gb_per_s:
        return text
    cable = "second cable" if len(busy) == 2 else "further cable"
    return f"{text} A {cable} adds almost nothing: one alone carries {_range(one)}."


def _narrow(function: NicFunction) -> str | None:
    """The rate of a device whose own link carries less than its port, and the reason; else None."""
    link = function.links[0] if function.links else None
    if link is None or link.pcie is None or function.port is None:
        return None
    carried, port = both_ways(link.pcie), ports.payload(function.port)
    if carried.high_gb_per_s >= port.low_gb_per_s:
        return None
    return f"{_range(carried)}, since its link is PCIe {link.pcie}; the port could carry {_range(port)}."


def _uplinks(machine: NodeLinks) -> Iterator[str]:
    """Remarks on switch links that limit several NICs when data goes through host memory."""
    links = {link.address: link for function in machine.functions for link in function.links[1:]}
    nics = {function.name: function for function in machine.functions}
    for address, link in links.items():
        users = [nics[name] for name in machine.users.get(address, ()) if name in nics]
        busy = active_ports(users)
        if link.pcie is None or len(busy) < 2:
            continue
        carried, wanted = both_ways(link.pcie), total(ports.payload(port) for port in busy.values())
        if carried.high_gb_per_s < wanted.low_gb_per_s:
            yield (
                f"{_names(users)} share the switch link {address}, PCIe {link.pcie}: through host memory "
                f"they carry {_range(carried)} together; between devices below that switch "
                f"{_range(wanted)}."
            )


def _names(functions: list[NicFunction]) -> str:
    names = [function.name for function in functions]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _range(interval: Interval) -> str:
    return f"{interval.low_gb_per_s:.1f} to {interval.high_gb_per_s:.1f} GB/s"
