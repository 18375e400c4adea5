"""Rounds of a round robin: the pairs of a round are disjoint, and each pair meets once."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fleet.rounds import rounds_of


def names(count):
    return [f"n{number}" for number in range(count)]


def test_four_nodes_meet_in_three_rounds():
    assert list(rounds_of(["a", "b", "c", "d"])) == [
        [("a", "d"), ("b", "c")],
        [("a", "c"), ("d", "b")],
        [("a", "b"), ("c", "d")],
    ]


@given(st.integers(0, 40))
def test_pairs_of_a_round_are_disjoint_and_each_pair_meets_once(count):
    rounds = list(rounds_of(names(count)))
    met = [frozenset(pair) for pairs in rounds for pair in pairs]

    for pairs in rounds:
        assert len({node for pair in pairs for node in pair}) == 2 * len(pairs) == count - count % 2
    assert len(rounds) == max(0, count - 1 + count % 2)
    assert len(met) == len(set(met))
    assert set(met) == {frozenset(pair) for pair in combinations(names(count), 2)}
