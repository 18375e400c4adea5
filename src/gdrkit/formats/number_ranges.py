"""Numbers as ranges: 0-7, 12."""

from __future__ import annotations

from collections.abc import Iterable

MOST_RANGES = 12


def number_ranges(numbers: Iterable[int]) -> str:
    """Numbers as ranges, at most MOST_RANGES of them; "" for none."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return ", ".join(words[:MOST_RANGES]) + (", ..." if len(words) > MOST_RANGES else "")
