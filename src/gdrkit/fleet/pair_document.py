"""What `gdr fleet bench` found, as a document (schema gdrkit.fleet-bench/1) and as text.

`pairs` has one row for each pair that was tried; every other section is computed from the rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from gdrkit.fleet.document import NodeRow
from gdrkit.fleet.hostlist import fold, natural
from gdrkit.fleet.judge import cause_of
from gdrkit.fleet.launcher import Pair
from gdrkit.fleet.slow import BadPairs, culprits, norm
from gdrkit.fleet.text import ODD_SHOWN, short
from gdrkit.formats.duration import duration
from gdrkit.formats.plural import plural
from gdrkit.formats.typical_rate import ENOUGH
from gdrkit.report.terminal import Row, render


class PairRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two nodes and the rate between them in 10**9 bytes per second, or why there is none."""

    nodes: tuple[str, str]  # the first one listened
    round: int  # from 1
    gb_per_s: float | None = None  # of messages to and fro, so in both directions
    streaming_gb_per_s: float | None = None  # of messages one after another, to the second node
    why: str = ""  # there is no rate
    node: str = ""  # the one that is known to be the reason


class SlowNode(Struct, frozen=True, kw_only=True):
    """A node that explains why pairs are slow."""

    node: str
    gb_per_s: float  # the median of its pairs
    slow: int  # of its pairs
    pairs: int  # with a rate


class SlowPair(Struct, frozen=True, kw_only=True):
    """A slow pair that no slow node explains."""

    nodes: tuple[str, str]
    gb_per_s: float


class PairFailure(Struct, frozen=True, kw_only=True):
    """Nodes, or pairs of nodes, without a rate for the same reason."""

    kind: Literal["node", "pair"]
    nodes: str  # hostlist
    count: int  # of nodes or pairs
    why: str


class FleetBench(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.fleet-bench/1"):
    """The complete result of `gdr fleet bench`."""

    started: str  # UTC, as 2026-11-22T23:31:05Z
    seconds: float
    complete: bool  # false if it was interrupted
    path: str  # verbs or tcp
    gpu: int | None  # CUDA ordinal at both ends; None is host memory
    device: str  # RDMA device at both ends; empty without one
    network: str  # in which the nodes reached each other; empty for that of ssh or Slurm
    size_bytes: int  # of a message
    rounds: int
    nodes: int
    measured: int  # pairs with a rate
    typical_gb_per_s: float | None  # half of the nodes reach it with a peer; None without any rate
    slow_below_gb_per_s: float | None
    reached: int  # pairs that are not slow
    slow_nodes: tuple[SlowNode, ...]  # the slowest first
    slow_pairs: tuple[SlowPair, ...]  # the slowest first
    failures: tuple[PairFailure, ...]  # those of nodes first, and of these the most common
    unmeasured: str  # hostlist of nodes that did not fail, but have no rate: their peers failed
    pairs: tuple[PairRow, ...]


# -- from the rows of `gdr fleet bench` to its document --


class What(NamedTuple):
    """What was measured between all pairs."""

    path: str
    gpu: int | None
    device: str
    network: str
    size_bytes: int


def build(
    rows: Sequence[PairRow],
    silent: Mapping[str, NodeRow],
    nodes: Sequence[str],
    what: What,
    *,
    started: str = "",
    seconds: float = 0.0,
    complete: bool = True,
) -> FleetBench:
    """The document of some pairs of these nodes; `silent` are those that did not take part, and why."""
    rates = {row.nodes: row.gb_per_s for row in rows if row.gb_per_s is not None}
    expected = norm(rates)
    slow = {pair: rate for pair, rate in rates.items() if expected and rate < expected.slow_below}
    shares = culprits(slow, rates)
    pairs = [pair for pair in slow if not shares.keys() & set(pair)]
    known = {node for pair in rates for node in pair}
    failures = tuple(_failures(rows, rates, silent))
    failed = {*silent, *(node for row in rows if row.gb_per_s is None for node in row.nodes)}
    return FleetBench(
        started=started,
        seconds=seconds,
        complete=complete,
        **what._asdict(),
        rounds=max((row.round for row in rows), default=0),
        nodes=len(nodes),
        measured=len(rates),
        typical_gb_per_s=expected.typical if expected else None,
        slow_below_gb_per_s=expected.slow_below if expected else None,
        reached=len(rates) - len(slow),
        slow_nodes=tuple(_slow_nodes(shares, rates)),
        slow_pairs=tuple(
            SlowPair(nodes=pair, gb_per_s=rates[pair]) for pair in sorted(pairs, key=rates.__getitem__)
        ),
        failures=failures,
        unmeasured=fold(node for node in nodes if node not in known and node not in failed),
        pairs=tuple(rows),
    )


def _slow_nodes(shares: Mapping[str, BadPairs], rates: Mapping[Pair, float]) -> list[SlowNode]:
    own: dict[str, list[float]] = {node: [] for node in shares}
    for pair, rate in rates.items():
        for node in pair:
            if node in own:
                own[node].append(rate)
    found = [
        SlowNode(node=node, gb_per_s=statistics.median(own[node]), slow=share.bad, pairs=share.of)
        for node, share in shares.items()
    ]
    return sorted(found, key=lambda row: (row.gb_per_s, natural(row.node)))


def _failures(
    rows: Sequence[PairRow], rates: Mapping[Pair, float], silent: Mapping[str, NodeRow]
) -> Iterator[PairFailure]:
    """Nodes that did not take part or explain failed pairs, then pairs; those that fail alike together."""
    alike: dict[str, list[str]] = {}
    for name, node in silent.items():
        alike.setdefault(node.causes[0], []).append(name)
    failed = {row.nodes: row for row in rows if row.gb_per_s is None and not silent.keys() & set(row.nodes)}
    shares = culprits(failed, {**rates, **dict.fromkeys(failed, 0.0)})
    for name in shares:
        row = next(row for pair, row in failed.items() if name in pair)
        alike.setdefault(cause_of(row.why, row.nodes), []).append(name)
    for why, names in sorted(alike.items(), key=lambda item: -len(item[1])):
        yield PairFailure(kind="node", nodes=fold(names), count=len(names), why=why)
    pairs: dict[str, list[Pair]] = {}
    for pair, row in failed.items():
        if not shares.keys() & set(pair):
            pairs.setdefault(cause_of(row.why, row.nodes), []).append(pair)
    for why, found in sorted(pairs.items(), key=lambda item: -len(item[1])):
        names = list(dict.fromkeys(node for pair in found for node in pair))
        yield PairFailure(kind="pair", nodes=fold(names), count=len(found), why=why)


# -- what `gdr fleet bench` prints: groups, never a line for each pair --

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
    took = f" (took {duration(bench.seconds)})" if bench.seconds else ""
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
