"""Machines that are slower than the others of one text in the same test."""

from __future__ import annotations

import pytest

from gdrkit.explain.explain import explain
from gdrkit.explain.outputs.pasted_host import PastedHost

ROW = "{name}:  65536      1755432          0.00               {gbit:.2f}               {messages:.6f}\n"
SUM = "{name}: [SUM]   0.00-10.00  sec   227 GBytes   {gbit:.0f} Gbits/sec                  receiver\n"


def sentence(row: str, **gbit: float) -> str:
    rows = (row.format(name=name, gbit=rate, messages=rate * 1e3 / 8 / 65536) for name, rate in gbit.items())
    return explain(PastedHost("".join(rows))).answer.sentence


@pytest.mark.parametrize("row", [ROW, SUM], ids=["ib_write_bw", "iperf3"])
def test_the_slow_machine_of_a_fleet_is_named_first(row: str):
    words = sentence(row, node01=368, node02=367, node03=98, node04=368)
    assert "node03 12.2 GB/s (27%)" in words and "on the other 3 machines" in words
    assert "node01" not in words


def test_the_slowest_of_two_comes_first():
    words = sentence(ROW, node01=368, node02=90, node03=45, node04=368, node05=366)
    assert words.index("node03") < words.index("node02")


@pytest.mark.parametrize(
    "gbit",
    [
        {"node01": 368, "node02": 98},  # either may be as it should be
        {"node01": 368, "node02": 365, "node03": 352},  # runs of one setup differ by that much
        {"node01": 368, "node02": 98, "node03": 30},  # no two agree
    ],
)
def test_machines_that_differ_no_more_than_others_are_not_named(gbit: dict[str, float]):
    assert "slower than the others" not in sentence(ROW, **gbit)


def test_different_sizes_are_not_compared():
    rows = [ROW.format(name=f"node{n}", gbit=368, messages=368e3 / 8 / 65536) for n in range(3)]
    small = "node3:  64      1755432          0.00               3.00               5.859375\n"
    assert "slower than the others" not in explain(PastedHost("".join((*rows, small)))).answer.sentence
