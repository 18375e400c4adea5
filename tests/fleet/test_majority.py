"""What most nodes of a fleet have, as a file of `gdr expect`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fleet.majority import MajorityExpectation, by_kind
from gdrkit.formats.expectation import Expectation, ExpectedVersions, Rail, parse, write

RAIL = Rail(count=8, gpu="H100", nic="MT_1", distance="PIX", state="ACTIVE", rate=400, width=16)


def node(**fields):
    values = {"gpus": 8, "nics": 8, "gpu_models": {"H100": 8}, "rails": (RAIL,), **fields}
    return Expectation(**values)


def test_the_odd_one_changes_nothing():
    odd = node(gpus=7, gpu_models={"H100": 7}, rails=(), versions=ExpectedVersions(driver="570.1"))
    good = node(versions=ExpectedVersions(driver="580.2"), firmware={"MT_1": "28.43"})

    norm = MajorityExpectation([good, good, odd])
    assert norm.expectation == good and norm.open == []


def test_half_is_no_majority():
    nodes = [
        node(versions=ExpectedVersions(driver=driver)) for driver in ("570.1", "570.1", "580.2", "580.2")
    ]
    norm = MajorityExpectation(nodes)

    assert norm.expectation.versions == ExpectedVersions() and norm.expectation.gpus == 8
    assert norm.open == ["versions.driver: 2 values, none on more than half of 4 nodes"]


def test_a_value_counts_among_the_nodes_that_know_it():
    """What was not collected is neither equal nor different."""
    nodes = [node(versions=ExpectedVersions(nccl="2.28.9")), node(), node(), node()]
    assert MajorityExpectation(nodes).expectation.versions.nccl == "2.28.9"


def test_rails_in_another_order_are_the_same():
    other = Rail(count=1, gpu="H100", nic="MT_2")
    norm = MajorityExpectation([node(rails=(RAIL, other)), node(rails=(other, RAIL)), node(rails=())])

    assert set(norm.expectation.rails) == {RAIL, other}


def test_the_largest_kind_comes_first_and_a_lost_gpu_is_no_kind():
    some = [node(), node(gpus=7, gpu_models={"H100": 7}), node()]
    others = [node(gpu_models={"A100": 8})]

    assert by_kind([*others, *some]) == [some, others]


COUNTS = st.none() | st.integers(0, 8)
WORDS = st.sampled_from(("a", "b", '"c'))
RAILS = st.builds(Rail, count=st.integers(1, 8), gpu=WORDS, rate=st.integers(0, 400))
NODES = st.builds(
    Expectation,
    gpus=COUNTS,
    nics=COUNTS,
    gpu_models=st.dictionaries(WORDS, st.integers(0, 8), max_size=2),
    rails=st.lists(RAILS, max_size=2).map(tuple),
    firmware=st.dictionaries(WORDS, WORDS),
    versions=st.builds(ExpectedVersions, driver=st.none() | WORDS),
)


@given(st.lists(NODES, min_size=1, max_size=5))
def test_the_file_is_read_as_it_was_written(nodes):
    norm = MajorityExpectation(nodes)
    text = write(norm.expectation, norm.open)

    assert parse(text) == norm.expectation
