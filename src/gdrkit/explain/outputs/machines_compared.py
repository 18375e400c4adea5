"""The machines of a text that are slower than the others in the same test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdrkit.explain.explanation import KnownFact
from gdrkit.explain.outputs.measured import IPERF, SLOW_HOST, MachineRate, machine_rates
from gdrkit.explain.outputs.text_host import TextHost
from gdrkit.formats.plural import plural
from gdrkit.formats.typical_rate import ExpectedRate, expected

FEWEST = 3
"""Of two machines, either may be the one that is not as it should be."""
MOST_NAMED = 8


def slow_machines(machines: Mapping[str, TextHost]) -> dict[str, tuple[KnownFact, ...]]:
    """For the slowest machine of a test, which machines are slower than the others; for others nothing."""
    tests: dict[tuple[object, ...], dict[str, MachineRate]] = {}
    for name, host in machines.items() if len(machines) >= FEWEST else ():
        for rate in machine_rates(host.own_lines) if name else ():
            same = tests.setdefault((rate.test, rate.memory, rate.size_bytes), {})
            if name not in same or rate.gb_per_s > same[name].gb_per_s:
                same[name] = rate
    found: dict[str, tuple[KnownFact, ...]] = dict.fromkeys(machines, ())
    for best in tests.values():
        usual = expected(rate.gb_per_s for rate in best.values()) if len(best) >= FEWEST else None
        if usual and (slow := sorted(_slow(best, usual), key=lambda name: best[name].gb_per_s)):
            fact = best[slow[0]].fact
            value = _words(slow, best, usual)
            found[slow[0]] = (*found[slow[0]], KnownFact(SLOW_HOST, value, fact.line, fact.text))
    return found


def _slow(best: Mapping[str, MachineRate], usual: ExpectedRate) -> Iterator[str]:
    return (name for name, rate in best.items() if rate.gb_per_s < usual.slow_below)


def _words(slow: list[str], best: Mapping[str, MachineRate], usual: ExpectedRate) -> str:
    """`node04 measured 12.2 GB/s, 27 % of the 46 GB/s that the other 3 machines reach or nearly reach`."""
    listed = ", ".join(
        f"{name} {_rate(best[name])} ({best[name].gb_per_s / usual.typical:.0%})"
        for name in slow[:MOST_NAMED]
    )
    rest = f" and {len(slow) - MOST_NAMED} more" if len(slow) > MOST_NAMED else ""
    program = "iperf" if best[slow[0]].test == (IPERF,) else "perftest"
    others = plural(len(best) - len(slow), "machine")
    return f"{listed}{rest}, where {program} measured about {_gbit(usual.typical)} on the other {others}"


def _rate(rate: MachineRate) -> str:
    return _gbit(rate.gb_per_s)


def _gbit(gb_per_s: float) -> str:
    return f"{gb_per_s:.3g} GB/s"
