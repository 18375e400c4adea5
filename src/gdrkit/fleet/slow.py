"""Which nodes explain slow or failed pairs, and what slow means.

A pair is as fast as the slower of its nodes and the way between them, so one pair alone does not show which
of the three is slow; pairs with other peers do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from gdrkit.fleet.launcher import Pair
from gdrkit.formats.typical_rate import ExpectedRate, expected


def norm(rates: Mapping[Pair, float]) -> ExpectedRate | None:
    """The norm of some pairs; None without any.

    A node's own rate is its best with any peer, which a slow peer does not lower."""
    return expected(_best(rates).values())


class BadPairs(NamedTuple):
    """The pairs of a node that are bad."""

    bad: int
    of: int


def culprits(bad: Collection[Pair], rates: Mapping[Pair, float]) -> dict[str, BadPairs]:
    """The nodes that explain bad pairs; `rates` has all pairs, 0 for one that failed.

    A node does that if at least two pairs, and more than half of its pairs, are bad that no other culprit
    explains. The one with the largest share comes first, then the one whose best rate is lower."""
    best = _best(rates)
    pairs_of: dict[str, set[Pair]] = {node: set() for node in best}
    for pair in rates:
        for node in pair:
            pairs_of[node].add(pair)
    all_bad = set(bad)
    left = {node: BadPairs(len(pairs & all_bad), len(pairs)) for node, pairs in pairs_of.items()}
    whole, found = dict(left), {}
    while suspects := [node for node, share in left.items() if share.bad > 1 and 2 * share.bad > share.of]:
        worst = max(suspects, key=lambda node: (left[node].bad / left[node].of, left[node].bad, -best[node]))
        found[worst] = whole[worst]
        for pair in pairs_of.pop(worst):
            peer = pair[pair[0] == worst]
            if peer in pairs_of:
                pairs_of[peer].discard(pair)
                left[peer] = BadPairs(len(pairs_of[peer] & all_bad), len(pairs_of[peer]))
        del left[worst]
    return found


def _best(rates: Mapping[Pair, float]) -> dict[str, float]:
    """Each node's rate with its best peer."""
    best: dict[str, float] = {}
    for pair, rate in rates.items():
        for node in pair:
            best[node] = max(rate, best.get(node, 0.0))
    return best
