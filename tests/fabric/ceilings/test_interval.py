"""Rates of links in series and in parallel, which differ in both bounds."""

from gdrkit.fabric.ceilings.interval import between, least, total

SLOW, FAST = between(10.0, 12.0), between(11.0, 20.0)


def test_in_series_the_lesser_bounds_count_and_in_parallel_their_sums():
    assert least([FAST, SLOW]) == SLOW and least([between(5.0, 30.0), SLOW]) == between(5.0, 12.0)
    assert total([SLOW, FAST]) == between(21.0, 32.0)
