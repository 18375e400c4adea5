"""Rounds of disjoint pairs: the circle method of a round robin.

The first node stays, the others turn by one place in each round, and opposite ones meet: every pair meets
once in n - 1 rounds, in n rounds if n is odd. Source: E. Lucas, Recreations mathematiques II (1883), sixth
recreation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdrkit.fleet.launcher import Pair


def most_rounds(nodes: int) -> int:
    """The rounds in which every pair of so many nodes meets."""
    return nodes - 1 + nodes % 2


def rounds_of(nodes: Sequence[str]) -> Iterator[list[Pair]]:
    """All rounds of some nodes, each as disjoint pairs. With an odd number, one node rests in each round."""
    ring: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    half = len(ring) // 2
    for _ in range(len(ring) - 1):
        opposite = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield [(one, other) for one, other in opposite if one is not None and other is not None]
        ring = [ring[0], ring[-1], *ring[1:-1]]
