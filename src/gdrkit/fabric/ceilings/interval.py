"""Bounds on a rate, in GB/s (1e9 bytes)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

BITS = 8


class Interval(Struct, frozen=True):
    """Bounds on a rate in one direction: no run exceeds high; tuned runs reach low.

    Anything unknown widens it."""

    low_gb_per_s: float
    high_gb_per_s: float
    low_gbit_per_s: float
    high_gbit_per_s: float

    @property
    def middle_gb_per_s(self) -> float:
        """The middle, where a single number is needed."""
        return (self.low_gb_per_s + self.high_gb_per_s) / 2

    def __contains__(self, gb_per_s: float) -> bool:
        return self.low_gb_per_s <= gb_per_s <= self.high_gb_per_s

    def __str__(self) -> str:
        low, high = self.low_gb_per_s, self.high_gb_per_s
        return f"{low:.1f} to {high:.1f} GB/s" if low else f"at most {high:.1f} GB/s"

    def scaled(self, low: float, high: float | None = None) -> Interval:
        """Each bound by its own factor."""
        return between(self.low_gb_per_s * low, self.high_gb_per_s * (low if high is None else high))

    def rounded(self, digits: int) -> Interval:
        """Each number rounded once, from its exact value."""
        return Interval(
            round(self.low_gb_per_s, digits),
            round(self.high_gb_per_s, digits),
            round(self.low_gbit_per_s, digits),
            round(self.high_gbit_per_s, digits),
        )


def between(low_gb_per_s: float, high_gb_per_s: float) -> Interval:
    """The interval with these bounds."""
    return Interval(low_gb_per_s, high_gb_per_s, low_gb_per_s * BITS, high_gb_per_s * BITS)


def least(intervals: Iterable[Interval]) -> Interval:
    """The rate through all of them in series. Raises ValueError if there are none."""
    found = tuple(intervals)
    return between(min(i.low_gb_per_s for i in found), min(i.high_gb_per_s for i in found))


def total(intervals: Iterable[Interval]) -> Interval:
    """The rate of all of them in parallel."""
    found = tuple(intervals)
    return between(sum(i.low_gb_per_s for i in found), sum(i.high_gb_per_s for i in found))
