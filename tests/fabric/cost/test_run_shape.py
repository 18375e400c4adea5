"""GPUs and nodes of a run, from a list of ranks or from the ratio of its rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fabric.cost.run_shape import FACTORS, ranks_by_ratio, shape_of
from gdrkit.formats.nccl_tests import NcclRank, NcclRow, NcclTest, Timing


def run(program, ratios, ranks=()):
    rows = tuple(
        NcclRow(size_bytes=1 << 30, out_of_place=Timing(1.0, round(alg, 2), round(alg * factor, 2)))
        for alg, factor in ratios
    )
    return NcclTest(program=program, rows=rows, ranks=ranks)


def listed(*numbers):
    return tuple(NcclRank(n, f"host{n // 4}", n % 4, "NVIDIA GB200") for n in numbers)


@pytest.mark.parametrize("program", FACTORS)
@given(ranks=st.integers(2, 64), alg=st.floats(250, 900))
def test_rates_of_some_hundred_tell_up_to_64_ranks_apart(program, ranks, alg):
    found = ranks_by_ratio(run(program, [(alg, FACTORS[program](ranks))]))
    assert found == ranks


def test_small_rates_tell_nothing():
    assert ranks_by_ratio(run("all_reduce", [(1.2, 2 * 63 / 64)])) is None


def test_the_factor_of_broadcast_tells_nothing():
    assert ranks_by_ratio(run("broadcast", [(300.0, 1.0)])) is None


def test_rates_that_fit_no_number_of_ranks_tell_nothing():
    assert ranks_by_ratio(run("all_reduce", [(300.0, 1.0), (300.0, 1.9)])) is None


def test_a_whole_list_counts_without_the_ratio():
    shape = shape_of(run("all_reduce", [(300.0, 1.9)], listed(*range(8))), 4)
    assert (shape.ranks, shape.per_node, shape.nodes, shape.note) == (8, 4, 2, "")


def test_the_end_of_a_list_and_the_ratio_give_the_whole():
    shape = shape_of(run("all_reduce", [(430.0, 2 * 71 / 72)], listed(70, 71)), 4)
    assert (shape.ranks, shape.per_node, shape.nodes) == (72, 4, 18)
    assert "the text does not list them all" in shape.note


def test_a_ratio_that_contradicts_the_list_is_not_believed():
    assert shape_of(run("all_reduce", [(430.0, 2 * 15 / 16)], listed(70, 71)), 4).ranks is None


def test_a_text_without_ranks_and_ratio_shows_neither_gpus_nor_nodes():
    assert str(shape_of(run("broadcast", [(300.0, 1.0)]), 8)) == "GPUs not shown on nodes not shown"


def test_as_many_ranks_as_a_node_has_gpus_may_be_on_one_node_or_on_many():
    assert shape_of(run("all_reduce", [(300.0, 2 * 7 / 8)]), 8).nodes is None
