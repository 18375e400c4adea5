"""The odd ones out: a planted node is named first, and nodes that are alike are not odd."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fleet import peers as peers_module
from gdrkit.fleet.build import build
from gdrkit.fleet.document import Standing
from gdrkit.fleet.peers import kinds, norm, odd
from gdrkit.fleet.text import text
from tests.fleet.fleets import judged_fleet, row
from tests.seed import SEED


@pytest.mark.parametrize("seed", sorted(random.Random(SEED).sample(range(4), 2)))
def test_the_planted_node_is_named_first_and_without_it_no_node_is_odd(seed):
    """Beside two others, the fewest that can show what is usual; two of four fleets, by the date."""
    drawn, rows = judged_fleet(seed, 3)

    assert build(rows).odd[0].node == drawn.planted
    assert build([one for one in rows if one.name != drawn.planted]).odd == ()


def peers(count, **traits):
    return [row(f"gpu{number:02d}", traits=traits) for number in range(count)]


def test_an_odd_node_is_shown_with_the_facts_in_which_it_differs():
    fleet = [
        *peers(63, driver="580.126", kernel="6.8"),
        row("odd", traits={"driver": "580.95", "kernel": "6.8"}),
    ]

    (found,) = build(fleet).odd

    assert found.node == "odd"
    assert [(d.trait, d.value, d.peers, d.same, d.of) for d in found.differences] == [
        ("driver", "580.95", "580.126", 1, 64)
    ]


def test_a_value_that_many_have_is_drift_and_makes_no_node_odd():
    half = peers(20, driver="590.48")
    other = [row(f"old{number}", traits={"driver": "580.126"}) for number in range(10)]

    report = build([*half, *other])

    assert report.odd == ()
    assert [(value.value, value.count) for value in report.drift[0].values] == [
        ("590.48", 20),
        ("580.126", 10),
    ]


def test_a_node_of_a_kind_of_its_own_is_compared_with_a_few_kinds_only(monkeypatch):
    asked = []
    shared = peers_module._shared
    monkeypatch.setattr(peers_module, "_shared", lambda *pair: asked.append(pair) or shared(*pair))
    large = [row(f"n{n}-{k}", traits={"GPUs": f"1 x model {k}"}) for k in range(300) for n in range(3)]
    small = [row(f"s{k}", traits={"GPUs": f"1 x other {k}"}) for k in range(5)]

    found = kinds([*large, *small])

    assert len(asked) == len(small) * peers_module.KINDS_LIMIT
    assert sum(map(len, found.values())) == len(large) + len(small)


def test_a_trait_without_a_majority_has_no_norm():
    rows = [row(f"n{number}", traits={"driver": f"5{number}.1"}) for number in range(8)]

    assert "driver" not in norm(rows)
    assert build(rows).odd == ()


def test_a_node_that_works_worse_comes_before_a_rarer_one():
    fleet = peers(16, driver="1", kernel="2", BIOS="3")
    fleet.append(row("rare", traits={"driver": "9", "kernel": "9", "BIOS": "9"}))
    fleet.append(row("broken", Standing.BLOCKED, traits={"driver": "9", "kernel": "2", "BIOS": "3"}))

    assert [one.node for one in build(fleet).odd] == ["broken", "rare"]


def test_a_node_that_lost_a_gpu_stays_among_its_peers():
    fleet = [*peers(5), row("lost", traits={"GPUs": "7 x H100"})]

    assert list(kinds(fleet)) == ["H100"]
    assert build(fleet).odd[0].differences[0].value == "7 x H100"


def test_a_single_node_without_gpus_is_compared_with_the_kind_that_it_resembles():
    h100 = peers(5, driver="580", kernel="6.8")
    a100 = [row(f"a{n}", traits={"GPUs": "4 x A100", "driver": "570", "kernel": "5.15"}) for n in range(5)]
    none = row("none", traits={"GPUs": "none", "driver": "570", "kernel": "5.15"})

    assert none in kinds([*h100, *a100, none])["A100"]


def test_kinds_with_three_nodes_are_compared_among_themselves():
    h100 = peers(20, driver="580")
    a100 = [row(f"a{n}", traits={"GPUs": "4 x A100", "driver": "570"}) for n in range(3)]

    assert build([*h100, *a100]).odd == ()


def test_what_is_not_known_of_a_node_does_not_make_it_odd():
    assert build([*peers(8, driver="580"), row("silent")]).odd == ()


def test_nodes_without_an_answer_are_no_peers():
    fleet = [*peers(3), row("dead", Standing.UNREACHABLE), row("bad", Standing.UNREADABLE)]

    assert {one.name for rows in kinds(fleet).values() for one in rows} == {"gpu00", "gpu01", "gpu02"}


VALUES = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)


@given(st.lists(VALUES, min_size=3, max_size=20), st.randoms())
def test_the_order_of_the_rows_does_not_matter(traits, random):
    rows = [row(f"n{number}", traits=each) for number, each in enumerate(traits)]
    shuffled = random.sample(rows, len(rows))

    assert odd(kinds(rows)) == odd(kinds(shuffled))


def test_nodes_that_are_odd_in_the_same_way_are_one_line():
    """As a rack is that was set up apart."""
    fleet = [*peers(12, ACS="0"), *(row(f"rack{n}", traits={"ACS": "1"}) for n in range(3))]
    words = text(build(fleet)).partition("Odd ones out")[2]

    assert words.startswith(": 3 nodes\n  rack[0-2]\n    ACS: 1 on 3; 12 of 15 have 0\n\n")


def test_the_count_of_peers_is_that_of_the_nodes_that_have_the_value():
    fleet = [*peers(12, driver="1"), row("a", traits={"driver": "2"}), row("b", traits={"driver": "3"})]
    words = text(build(fleet)).partition("Odd ones out")[2]

    assert "  a\n    driver: 2; 12 of 14 have 1\n" in words
    assert "driver: 1 on 12; 2 on a; 3 on b" in text(build(fleet))


def test_a_fleet_of_many_kinds_has_a_bounded_answer_that_names_the_kinds():
    """What the most nodes differ in is shown; what shows in the same way stands together."""
    versions = [f"v{n}" for n in range(3)]
    traits = ("BIOS", "driver", "kernel", "UCX", "flow control", "priorities")
    rows = [
        row(f"k{kind}-{n}", traits={"GPUs": f"8 x model {kind}"} | dict.fromkeys(traits, version))
        for kind in range(5)
        for n, version in enumerate(versions * (2 if kind == 4 else 1))
    ]
    printed = text(build(rows), width=120)
    drift, _, must = printed.partition("Must be the same")

    assert drift.count("\ndrift   ") == 12 and "        and 8 more: --json has all" in drift
    assert "drift   BIOS (model 4): v0 on 2; v1 on k4-[1,4]; v2 on k4-[2,5]\n" in drift
    assert "  flow control (model 4): v0 on 2;" in must and must.count("shows as: no message") == 1
    assert "model 0" not in text(build(rows[:3]))


def test_the_values_of_a_trait_are_counted_once_however_many_nodes_differ(monkeypatch):
    """Each of many hostile nodes may have a value of its own."""
    asked = []
    total = Counter.total
    monkeypatch.setattr(Counter, "total", lambda counts: asked.append(counts) or total(counts))

    def work(nodes):
        asked.clear()
        odd(kinds([row(f"n{n}", traits={"driver": f"v{n}", "kernel": f"k{n}"}) for n in range(nodes)]))
        return len(asked)

    assert work(10) == work(40)
