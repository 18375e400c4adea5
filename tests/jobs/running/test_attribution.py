"""Attachments of a NIC and regions of processes, joined by size, compared with a search by brute force."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.jobs.running.attribution import shares

SIZES = st.lists(st.sampled_from([4096, 8192, 12288]), max_size=4)


def paths(attached: list[int], regions: dict[int, list[int]]) -> set[tuple[int, ...]]:
    """How many of its regions each process may have by dma-buf, for every choice that explains the table."""
    every = [(pid, size) for pid, sizes in regions.items() for size in sizes]
    return {
        tuple(sum(1 for owner, _ in chosen if owner == pid) for pid in regions)
        for chosen in combinations(every, len(attached))
        if sorted(size for _, size in chosen) == sorted(attached)
    }


@given(SIZES, SIZES, SIZES)
def test_a_share_is_what_every_explanation_agrees_on(attached, one, other):
    regions = {1: one, 2: other}
    found = shares(attached, regions)
    possible = paths(attached, regions)

    for column, pid in enumerate(regions):
        counts = {row[column] for row in possible}
        assert found[pid].explained is bool(possible)
        assert found[pid].at_least == (min(counts) if counts else 0)
        if counts:
            assert found[pid].at_most == max(counts)


def test_pages_are_compared_and_bytes_are_those_of_the_buffers():
    found = shares([8 << 20, 8 << 20], {7: [(8 << 20) - 5, 100]})[7]

    assert (found.at_least, found.explained) == (0, False)
    found = shares([8 << 20], {7: [(8 << 20) - 5, 100]})[7]
    assert (found.at_least, found.at_most, found.bytes_at_least) == (1, 1, 8 << 20)
    assert shares([8 << 20], {7: [(8 << 20) + 5]})[7].at_least == 0
