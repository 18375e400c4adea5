"""From the rows of `gdr fleet bench` to its document."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gdrkit.fleet.document import NodeRow
from gdrkit.fleet.hostlist import fold, natural
from gdrkit.fleet.judge import cause_of
from gdrkit.fleet.launcher import Pair
from gdrkit.fleet.pair_document import FleetBench, PairFailure, PairRow, SlowNode, SlowPair
from gdrkit.fleet.slow import Share, culprits, norm


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


def _slow_nodes(shares: Mapping[str, Share], rates: Mapping[Pair, float]) -> list[SlowNode]:
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
