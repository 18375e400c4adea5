"""Enumerations of words that compare by rank, not alphabetically."""

from __future__ import annotations

import enum
from typing import Self


class Ranked(enum.StrEnum):
    """An enumeration of words, declared from the lowest to the highest.

    Members compare by rank, so that `min`, `max` and `sorted` work as expected.
    """

    def __init__(self, word: str) -> None:
        self.rank = len(self.__class__.__members__)

    def __lt__(self, other: Self) -> bool:  # type: ignore[override]
        return self.rank < other.rank

    def __le__(self, other: Self) -> bool:  # type: ignore[override]
        return self.rank <= other.rank

    def __gt__(self, other: Self) -> bool:  # type: ignore[override]
        return self.rank > other.rank

    def __ge__(self, other: Self) -> bool:  # type: ignore[override]
        return self.rank >= other.rank
