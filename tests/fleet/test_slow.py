"""Which node is slow: fleets with a known truth, in which a pair is as fast as the slower of its nodes."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fleet.rounds import rounds_of
from gdrkit.fleet.slow import culprits, norm
from gdrkit.formats.typical_rate import ENOUGH

FAST = 50.0
NOISE = st.floats(0.98, 1.02)
"""Of fast links. The norm is at most 1.02, and the scatter of the nodes' best rates takes no more than 0.21
away from it: 3.5 x 1.4826 x 0.04. What is slow is below 0.75."""
SLOW = st.floats(0.02, 0.75)


def pairs_of(count, rounds=3):
    nodes = [f"n{number}" for number in range(count)]
    return [pair for pairs in islice(rounds_of(nodes), rounds) for pair in pairs]


def named(rates):
    """The slow nodes, and the slow pairs that these do not explain."""
    below = norm(rates).slow_below
    slow = {pair for pair, rate in rates.items() if rate < below}
    nodes = culprits(slow, rates)
    return set(nodes), {pair for pair in slow if not nodes.keys() & set(pair)}


@st.composite
def fleets(draw, least=3, rounds=3):
    """Pairs with the rates of a fleet in which all is well."""
    pairs = pairs_of(draw(st.integers(least, 24)), rounds)
    return {pair: FAST * draw(NOISE) for pair in pairs}


@given(fleets())
def test_where_all_is_well_nothing_is_slow(rates):
    assert named(rates) == (set(), set())


@given(fleets(), st.data())
def test_one_slow_node_is_named_and_no_other(rates, data):
    planted = data.draw(st.sampled_from(sorted({node for pair in rates for node in pair})))
    factor = data.draw(SLOW)
    slow = {pair: rate * (factor if planted in pair else 1.0) for pair, rate in rates.items()}

    assert named(slow) == ({planted}, set())


@given(fleets(least=4), st.data())
def test_one_slow_pair_is_named_as_a_pair_and_blames_no_node(rates, data):
    """The near miss: both nodes are fast with their other peers."""
    planted = data.draw(st.sampled_from(sorted(rates)))

    assert named({**rates, planted: rates[planted] * data.draw(SLOW)}) == (set(), {planted})


@given(fleets(least=5, rounds=100), st.data())
def test_with_all_pairs_several_slow_nodes_are_named(rates, data):
    nodes = sorted({node for pair in rates for node in pair})
    most = (len(nodes) - 1) // 2 - 1
    planted = set(data.draw(st.lists(st.sampled_from(nodes), max_size=max(1, most), unique=True)))
    factor = {node: data.draw(SLOW) if node in planted else 1.0 for node in nodes}
    slow = {pair: rate * min(factor[node] for node in pair) for pair, rate in rates.items()}

    assert named(slow)[0] == planted


def test_a_good_node_that_meets_two_slow_ones_is_not_named():
    """Two of its three pairs are slow, as with a slow node; but those two nodes explain them."""
    pairs, slow = pairs_of(8), {"n6", "n7"}
    assert [pair for pair in pairs if "n0" in pair] == [("n0", "n7"), ("n0", "n6"), ("n0", "n5")]

    assert named({pair: 5.0 if slow & set(pair) else FAST for pair in pairs}) == (slow, set())


def test_a_good_node_whose_peers_are_all_slow_is_not_named():
    """All of its pairs are slow, too; but with the best of them it is faster than the other slow nodes."""
    slow = {"n5": 5.0, "n6": 6.0, "n7": 7.0}
    rates = {pair: min(slow.get(node, FAST) for node in pair) for pair in pairs_of(8)}
    assert [rate for pair, rate in rates.items() if "n0" in pair] == [7.0, 6.0, 5.0]

    assert named(rates)[0] == set(slow)


def test_a_node_with_many_slow_pairs_is_not_named_before_those_with_none_else():
    fast = ["g a", "g b", "a b", "b c", "a c"]
    slow = ["g s1", "g s2", "g s3", "s1 a", "s2 b", "s3 c"]
    rates = {tuple(pair.split()): FAST if pair in fast else 5.0 for pair in (*fast, *slow)}

    assert named(rates) == ({"s1", "s2", "s3"}, set())


def test_a_node_with_two_slow_pairs_of_five_is_not_named():
    """The near miss: more of its pairs are fast."""
    planted = {("n0", "n5"), ("n0", "n4")}

    assert named({pair: 5.0 if pair in planted else FAST for pair in pairs_of(6, 5)}) == (set(), planted)


def test_a_node_with_half_of_its_pairs_slow_is_not_named():
    planted = {("n0", "n5"), ("n0", "n4"), ("n0", "n3")}

    assert named({pair: 5.0 if pair in planted else FAST for pair in pairs_of(7, 7)}) == (set(), planted)


def test_a_node_with_one_pair_cannot_be_told_from_the_pair():
    assert named({("a", "b"): 50.0, ("c", "d"): 5.0}) == (set(), {("c", "d")})
    assert named({("a", "b"): 5.0}) == (set(), set()) and norm({}) is None


def test_nodes_that_scatter_widely_have_a_lower_bound():
    """Among rates between 30 and 70 a rate of 40 is usual; in a fleet that agrees it is slow."""
    scattered = {(f"a{n}", f"b{n}"): 30.0 + 4 * n for n in range(11)}
    agreed = {(f"a{n}", f"b{n}"): 50.0 for n in range(10)} | {("c", "d"): 40.0}

    assert named(scattered) == (set(), set())
    assert norm(agreed).slow_below == ENOUGH * 50.0 and named(agreed)[1] == {("c", "d")}
