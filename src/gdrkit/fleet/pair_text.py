"""What `gdr fleet bench` prints: groups, never a line for each pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.fleet.hostlist import fold
from gdrkit.fleet.pair_document import FleetBench, PairFailure, SlowNode
from gdrkit.fleet.slow import ENOUGH
from gdrkit.fleet.text import ODD_SHOWN, duration, short
from gdrkit.formats.plural import plural
from gdrkit.report.terminal import Row, render

STYLES = {"slow": "bold red", "failed": "red", "unknown": "bold magenta"}
INDENT = 12


def text(
    bench: FleetBench, *, size: str, compare: str, colour: bool = False, width: int | None = None
) -> str:
    """The result as lines of `width` columns. `size` is that of a message in words, `compare` the command
    that compares two nodes, which are added to it."""
    return render(_lines(bench, size, compare), STYLES, colour=colour, width=width)


def _lines(bench: FleetBench, size: str, compare: str) -> Iterator[Row]:
    what = f"{bench.path}, {_memory(bench)}, messages of {size}"
    took = f"  in {duration(bench.seconds)}" if bench.seconds else ""
    tried = f"{plural(len(bench.pairs), 'pair')} in {plural(bench.rounds, 'round')}"
    yield 0, "bold", f"{plural(bench.nodes, 'node')}, {tried}: {what}{took}"
    if not bench.complete:
        yield 0, "unknown", "Interrupted: the pairs that were left are not counted."
    yield 0, "", ""
    if bench.typical_gb_per_s is None or bench.slow_below_gb_per_s is None:
        yield INDENT, "unknown", "no pair was measured", "typical"
    else:
        reached = (
            f"{bench.reached} of {plural(bench.measured, 'pair')} reach {_rate(bench.slow_below_gb_per_s)}"
        )
        yield INDENT, "", f"{_rate(bench.typical_gb_per_s)}; {reached}", "typical"
    yield from _slow(bench)
    yield from _failed(bench)
    yield from _next(bench, compare)


def _slow(bench: FleetBench) -> Iterator[Row]:
    groups = list(_alike(bench.slow_nodes))
    for group in groups[:ODD_SHOWN]:
        names = short(fold(row.node for row in group))
        rates = _rate(group[0].gb_per_s)
        if _rate(group[-1].gb_per_s) != rates:
            rates = f"{rates} to {_rate(group[-1].gb_per_s)}"
        slow, of = sum(row.slow for row in group), sum(row.pairs for row in group)
        yield INDENT, "slow", f"{names}: {rates}, slow in {slow} of {plural(of, 'pair')}", "slow node"
    if more := sum(map(len, groups[ODD_SHOWN:])):
        yield INDENT, "dim", f"and {plural(more, 'more node')}: --json has all"
    for pair in bench.slow_pairs[:ODD_SHOWN]:
        yield INDENT, "slow", f"{' and '.join(pair.nodes)}: {_rate(pair.gb_per_s)}", "slow pair"
    if more := len(bench.slow_pairs[ODD_SHOWN:]):
        yield INDENT, "dim", f"and {plural(more, 'more pair')}: --json has all"


def _alike(nodes: Iterable[SlowNode]) -> Iterator[list[SlowNode]]:
    """Slow nodes, the slowest first, by rates that do not differ by more than is slow."""
    group: list[SlowNode] = []
    for node in nodes:
        if group and ENOUGH * node.gb_per_s > group[0].gb_per_s:
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _failed(bench: FleetBench) -> Iterator[Row]:
    for failure in bench.failures[:ODD_SHOWN]:
        yield INDENT, "failed", f"{_who(failure)}: {failure.why}", "failed"
    if more := sum(failure.count for failure in bench.failures[ODD_SHOWN:]):
        yield INDENT, "dim", f"and {more} more: --json has all"
    if bench.unmeasured:
        yield INDENT, "unknown", f"{short(bench.unmeasured)}: their peers failed", "no rate"


def _who(failure: PairFailure) -> str:
    if failure.kind == "node":
        return short(failure.nodes)
    return f"{plural(failure.count, 'pair')} of {short(failure.nodes)}"


def _next(bench: FleetBench, compare: str) -> Iterator[Row]:
    """How to find out why a node is slow, and what few rounds cannot show."""
    if bench.slow_nodes:
        slow = bench.slow_nodes[0].node
        others = {node for pair in bench.slow_pairs for node in pair.nodes}
        others |= {row.node for row in bench.slow_nodes}
        measured = (node for row in bench.pairs if row.gb_per_s is not None for node in row.nodes)
        if good := next((node for node in measured if node not in others), ""):
            yield 0, "", ""
            yield 0, "dim", f"to see how it differs: `{compare} {slow} {good} --compare {slow} {good}`"
    elif bench.slow_pairs and bench.rounds < 2:
        yield 0, "", ""
        yield 0, "dim", "one round does not show which of the two nodes is slow: add --rounds 3"


def _memory(bench: FleetBench) -> str:
    memory = "host memory" if bench.gpu is None else f"GPU {bench.gpu}"
    device = f", {bench.device}" if bench.device else ""
    return f"{memory}{device}{f', {bench.network}' if bench.network else ''}"


def _rate(gb_per_s: float) -> str:
    return f"{gb_per_s:.3g} GB/s"
