"""Words that stand in an order of their own, not in that of the alphabet."""

from __future__ import annotations

import enum
from typing import Self


class Ranked(enum.StrEnum):
    """A closed set of words, from the least to the greatest as they are declared.

    It is written as a word and compares by place, so that `min`, `max` and `sorted` mean what they say.
    """

    def __init__(self, word: str) -> None:
        self.place = len(self.__class__.__members__)

    def __lt__(self, other: Self) -> bool:  # type: ignore[override]
        return self.place < other.place

    def __le__(self, other: Self) -> bool:  # type: ignore[override]
        return self.place <= other.place

    def __gt__(self, other: Self) -> bool:  # type: ignore[override]
        return self.place > other.place

    def __ge__(self, other: Self) -> bool:  # type: ignore[override]
        return self.place >= other.place
