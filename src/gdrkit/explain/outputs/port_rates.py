"""The rates of active ports in a text, and a port that is slower than those that it may be compared with.

`port-slower-than-others` compares the NICs of one board. ibstat does not print the board: without it, a
lower rate is shown, and not whether it should be so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gdrkit.explain.explanation import KnownFact
from gdrkit.explain.outputs.measured import RATES, SLOW, UNLIKE
from gdrkit.explain.outputs.text_host import TextHost, quote
from gdrkit.facts.port_width import active_rate, lone_slow
from gdrkit.facts.rdma import CLASS, nics
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, if_missing


class PortRate(Struct, frozen=True):
    """The rate of an active port, and as far as it is shown what kind of port it is."""

    gbit_per_s: float
    line: int
    kind: tuple[str, ...]  # the type of the NIC, its board and the link layer; "" where not shown


Rates = Mapping[str, PortRate]
"""By port: `mlx5_2`, or `mlx5_2/2` for a second one."""


def port_rates(node: Node, host: TextHost) -> Rates:
    """The rates of the active ports of NICs that a text shows."""
    devices = if_missing((), nics, node)
    return {name: rate for device in devices for name, rate in _of(node, host, device.name)}


def _of(node: Node, host: TextHost, device: str) -> Iterator[tuple[str, PortRate]]:
    folder = f"{CLASS}/{device}"
    for number in filter(whole_number, if_missing((), node.list, f"{folder}/ports")):
        port = f"{folder}/ports/{number}"
        rate, origin = if_missing(0.0, active_rate, node, device, int(number)), host.origin(f"{port}/rate")
        if rate and origin is not None:
            files = (f"{folder}/hca_type", f"{folder}/board_id", f"{port}/link_layer")
            kind = tuple(if_missing("", node.text, file).strip() for file in files)
            yield device if number == "1" else f"{device}/{number}", PortRate(rate, origin.lines[0], kind)


Machines = Mapping[str, tuple[TextHost, Rates]]


def rate_facts(machines: Machines) -> Mapping[str, tuple[KnownFact, ...]]:
    """For each machine the rates of its active ports, and the port that is slower than the others."""
    return {name: tuple(_facts(name, host, machines)) for name, (host, _) in machines.items()}


def _facts(name: str, host: TextHost, machines: Machines) -> Iterator[KnownFact]:
    rates = machines[name][1]
    if not rates:
        return
    kinds = {rate.kind for rate in rates.values()}
    unlike = len({(rate.kind, rate.gbit_per_s) for rate in rates.values()}) > len(kinds)
    yield _fact(RATES, f"{_listed(rates)}{UNLIKE * unlike}", next(iter(rates.values())).line, host)
    others = {other: shown for other, (_, shown) in machines.items() if other != name}
    for port, rate in rates.items():
        reasons = [*_than_sisters(port, rates), *_than_elsewhere(port, rate, others)]
        if reasons:
            of = f"{port} of {name}" if name else port
            value = f"{of} has {rate.gbit_per_s:g} Gbit/s, but {', and '.join(reasons)}"
            yield _fact(SLOW, value, rate.line, host)
            return


def _fact(name: str, value: str, line: int, host: TextHost) -> KnownFact:
    return KnownFact(name, value, line, next((one.text for one in quote(host, (line,))), ""))


def _listed(rates: Rates) -> str:
    """`mlx5_2 100 Gbit/s; mlx5_0, mlx5_1 400 Gbit/s`."""
    by_rate: dict[float, list[str]] = {}
    for port, rate in rates.items():
        by_rate.setdefault(rate.gbit_per_s, []).append(port)
    return "; ".join(f"{', '.join(names)} {rate:g} Gbit/s" for rate, names in sorted(by_rate.items()))


def _than_sisters(port: str, rates: Rates) -> Iterator[str]:
    """That all the other ports of a machine that may be alike have one higher rate."""
    alike = {name: rate.gbit_per_s for name, rate in rates.items() if rate.kind == rates[port].kind}
    if lone_slow(alike) == port:
        yield f"the other {len(alike) - 1} ports have {max(alike.values()):g}"


def _than_elsewhere(port: str, own: PortRate, others: Mapping[str, Rates]) -> Iterator[str]:
    """That the same port of every other machine that shows it has one higher rate."""
    same = {name: rates[port] for name, rates in others.items() if port in rates}
    shown = {rate.gbit_per_s for rate in same.values()}
    alike = all(one.kind == own.kind for one in same.values())
    if alike and len(shown) == 1 and min(shown) > own.gbit_per_s:
        names = [name for name in same if name]
        where = f"of {', '.join(names[:3])}" if names else "of the other machine"
        yield f"{port} {where} has {min(shown):g}"
