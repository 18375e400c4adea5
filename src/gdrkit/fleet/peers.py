"""Nodes compared with their peers: drift, what must agree, and the odd ones out.

The peers of a node are those of its kind. What most of them have is the norm; no list of good values is
needed, and where the peers disagree among themselves there is no norm.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest

from gdrkit.fleet.document import (
    SILENT,
    Difference,
    Drift,
    Learned,
    NodeRow,
    OddNode,
    Standing,
    TraitMismatch,
    TraitValue,
)
from gdrkit.fleet.groups import ORDER
from gdrkit.fleet.hostlist import fold, natural
from gdrkit.fleet.traits import DRIFTING, MUST_MATCH, NOT_CHECKED, OF_FINDINGS

SMALLEST_KIND = 3
"""Fewer nodes have no majority. They are compared with the kind that they resemble most."""
ODD_SHARE = 0.25
"""A value that more nodes than this have is a second norm: that is drift, and no single node is odd."""
ODD_LIMIT = 1000
VALUES_LIMIT = 20
KINDS_LIMIT = 100
"""A node of a small kind is compared with so many of the largest. A fleet has a handful of kinds; bundles of
strangers may name one for each node."""
_EVIDENCE_WEIGHT = 0.3
"""What was not collected says more about the collection than about the node."""

Kinds = Mapping[str, Sequence[NodeRow]]


def kinds(rows: Iterable[NodeRow]) -> dict[str, list[NodeRow]]:
    """The nodes by kind, the largest first: those with GPUs of the same models.

    The number of GPUs does not count, so that a node that lost one stays among its peers."""
    found: dict[str, list[NodeRow]] = {}
    for row in rows:
        if row.standing not in SILENT:
            found.setdefault(_kind(row), []).append(row)
    large = {name: nodes for name, nodes in found.items() if len(nodes) >= SMALLEST_KIND}
    largest = nlargest(KINDS_LIMIT, large, key=lambda name: len(large[name]))
    norms = {name: norm(large[name]) for name in largest}
    for name, nodes in found.items():
        if name in large:
            continue
        for node in nodes:
            nearest = max(norms, key=lambda kind: _shared(node, norms[kind]), default=name)
            large.setdefault(nearest, []).append(node)
    return dict(sorted(large.items(), key=lambda item: (-len(item[1]), item[0])))


def _kind(row: NodeRow) -> str:
    models = row.traits.get("GPUs", "")
    return " and ".join(sorted({part.rpartition(" x ")[2] for part in models.split(", ")}))


def _shared(row: NodeRow, usual: Mapping[str, str]) -> int:
    return sum(usual.get(trait) == value for trait, value in row.traits.items())


def norm(rows: Sequence[NodeRow]) -> dict[str, str]:
    """The value that more than half of the nodes have, counted among those that show it."""
    found = {}
    for trait, counts in _counts(rows).items():
        value, most = counts.most_common(1)[0]
        if 2 * most > counts.total():
            found[trait] = value
    return found


def _counts(rows: Iterable[NodeRow]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        for trait, value in row.traits.items():
            counts.setdefault(trait, Counter())[value] += 1
    return counts


def learned(by_kind: Kinds) -> tuple[Learned, ...]:
    """What a good node of each kind is, by the majority."""
    return tuple(
        Learned(kind=kind, count=len(rows), traits=norm(rows))
        for kind, rows in by_kind.items()
        if len(rows) >= SMALLEST_KIND
    )


# -- odd ones out -----------------------------------------------------------------------------------------


def odd(by_kind: Kinds, *, all_differences: bool = False) -> tuple[OddNode, ...]:
    """The nodes that differ from their peers in a trait that few have, the oddest first.

    A node that works worse than most of its peers comes before one that only differs; then what counts is
    how rare its values are together. With `all_differences`, it does not matter how many share them."""
    found: list[tuple[tuple[int, float], OddNode]] = []
    for rows in by_kind.values():
        if len(rows) < SMALLEST_KIND:
            continue
        usual, counts = norm(rows), _counts(rows)
        known = {trait: values.total() for trait, values in counts.items()}
        common = Counter(row.standing for row in rows).most_common(1)[0][0]
        for row in rows:
            most = 1.0 if all_differences else ODD_SHARE
            differences = tuple(_differences(row, usual, counts, known, most))
            if differences:
                worse = min(0, ORDER.index(row.standing) - ORDER.index(common))
                rank = (worse, -sum(map(_surprise, differences)))
                found.append((rank, OddNode(node=row.name, standing=row.standing, differences=differences)))
    found.sort(key=lambda one: (one[0], natural(one[1].node)))
    return tuple(node for _, node in found[:ODD_LIMIT])


def odd_alike(found: Iterable[OddNode]) -> list[list[OddNode]]:
    """Odd nodes in groups that are odd in the same way, in the order of the first of each."""
    alike: dict[tuple[Standing, tuple[Difference, ...]], list[OddNode]] = {}
    for node in found:
        alike.setdefault((node.standing, node.differences), []).append(node)
    return list(alike.values())


def _differences(
    row: NodeRow,
    usual: Mapping[str, str],
    counts: Mapping[str, Counter[str]],
    known: Mapping[str, int],
    most: float,
) -> list[Difference]:
    differences = []
    for trait, value in row.traits.items():
        peers = usual.get(trait, value)
        same, of = counts[trait][value], known[trait]
        if value != peers and (same == 1 or same <= most * of):
            usually = counts[trait][peers]
            own, theirs = apart(trait, value, peers)
            differences.append(
                Difference(trait=trait, value=own, peers=theirs, same=same, of=of, usual=usually)
            )
    return sorted(differences, key=_surprise, reverse=True)


def _surprise(difference: Difference) -> float:
    """How rare a value is, in bits; of what was not checked, less."""
    weight = _EVIDENCE_WEIGHT if difference.trait == NOT_CHECKED else 1.0
    return weight * math.log2(difference.of / difference.same)


# -- versions, and what must agree ------------------------------------------------------------------------


def drift(by_kind: Kinds) -> tuple[Drift, ...]:
    """The versions that nodes of one kind do not share."""
    return tuple(
        Drift(trait=trait, kind=kind, values=values_of(trait, rows))
        for trait in DRIFTING
        for kind, rows in by_kind.items()
        if _varies(trait, rows)
    )


def mismatches(by_kind: Kinds) -> tuple[TraitMismatch, ...]:
    """What nodes of one kind, which one job may use, must share and do not."""
    return tuple(
        TraitMismatch(
            trait=trait,
            shows_as=row.shows_as,
            versions=row.versions,
            values=values_of(trait, rows),
            kind=kind,
        )
        for trait, row in MUST_MATCH.items()
        for kind, rows in by_kind.items()
        if _varies(trait, rows)
    )


def _varies(trait: str, rows: Iterable[NodeRow]) -> bool:
    return len({row.traits[trait] for row in rows if trait in row.traits}) > 1


def values_of(trait: str, rows: Iterable[NodeRow]) -> tuple[TraitValue, ...]:
    """The values of a trait with the nodes that have each, the most common first."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if trait in row.traits:
            found.setdefault(row.traits[trait], []).append(row.name)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        TraitValue(value=value, count=len(names), nodes=fold(names))
        for value, names in ordered[:VALUES_LIMIT]
    )


def differing(one: NodeRow, other: NodeRow) -> dict[str, tuple[str, str]]:
    """The traits of two nodes that differ, with both values; "" for one that is not known. Of findings, the
    codes that one of the two has and the other has not."""
    names = dict.fromkeys((*one.traits, *other.traits))
    pairs = {name: (one.traits.get(name, ""), other.traits.get(name, "")) for name in names}
    return {name: apart(name, *pair) for name, pair in pairs.items() if pair[0] != pair[1]}


def apart(trait: str, value: str, other: str) -> tuple[str, str]:
    """Two values as they differ: of lists of codes, such as the notes, without what both have."""
    if trait not in OF_FINDINGS or not value or not other:
        return value, other
    if value.endswith("...") or other.endswith("..."):  # cut, so a code that is not there may be
        return value, other
    own, theirs = value.split(", "), other.split(", ")
    return (
        ", ".join(code for code in own if code not in theirs) or "none of these",
        ", ".join(code for code in theirs if code not in own) or "none of these",
    )
