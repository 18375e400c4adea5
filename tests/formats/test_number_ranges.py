"""Numbers as ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.number_ranges import MOST_RANGES, number_ranges


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], ""),
        ([7], "7"),
        ([2, 0, 1, 1], "0-2"),
        ([0, 1, 3], "0-1, 3"),
        (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, ..."),
    ],
)
def test_neighbours_share_a_range(numbers: list[int], words: str):
    assert number_ranges(numbers) == words


@given(st.sets(st.integers(0, 200)))
def test_ranges_hold_the_numbers_and_no_others(numbers: set[int]):
    words = number_ranges(numbers)
    ranges = [part.split("-") for part in words.split(", ") if part and part != "..."]
    found = {number for one in ranges for number in range(int(one[0]), int(one[-1]) + 1)}

    assert found <= numbers
    assert words.endswith("...") or (found == numbers and len(ranges) <= MOST_RANGES)
