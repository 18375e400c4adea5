"""Racks of nodes, from a file or from the names."""

from __future__ import annotations

import pytest

from gdrkit.fleet.hostlist import NODES_LIMIT
from gdrkit.fleet.racks import parse_racks, rack_of
from gdrkit.formats.errors import FormatError


def test_a_line_names_a_rack_and_its_nodes():
    found = parse_racks("# hall 2\nr01 gpu[01-02]\n\nr02: login1, login2  # two\n")
    assert found == {"gpu01": "r01", "gpu02": "r01", "login1": "r02", "login2": "r02"}


def test_leaf_switches_of_slurm_are_racks_and_spines_are_not():
    text = "SwitchName=leaf1 Nodes=gpu[1-2]\nSwitchName=spine Switches=leaf[1-4]\n"
    assert parse_racks(text + "SwitchName=leaf2 LinkSpeed=100 Nodes=gpu3") == {
        "gpu1": "leaf1", "gpu2": "leaf1", "gpu3": "leaf2",
    }  # fmt: skip


@pytest.mark.parametrize("line", ["r01", "r01 gpu[1-", "r01 gpu;reboot", "BlockName=b1 Nodes="])
def test_another_line_is_refused_with_its_number(line):
    with pytest.raises(FormatError, match="line 2"):
        parse_racks(f"r00 gpu0\n{line}\n")


def test_no_more_nodes_are_named_in_all_lines_than_in_one():
    half = NODES_LIMIT // 2
    lines = [f"r{rack} n{rack}-[1-{half}]" for rack in range(3)]
    assert len(parse_racks("\n".join(lines[:2]))) == NODES_LIMIT
    with pytest.raises(FormatError, match=f"line 3: more than {NODES_LIMIT} nodes"):
        parse_racks("\n".join(lines))


@pytest.mark.parametrize(
    ("name", "rack"),
    [
        ("r01-gpu3", "r01"), ("rack3n4", "rack3"), ("r7n3", "r7"), ("rack12-04", "rack12"),
        ("R02-GPU1.example.org", "R02"), ("dc1-r07-gpu3", "dc1-r07"), ("rack-3-node-4", "rack-3"),
    ],
)  # fmt: skip
def test_a_name_with_the_number_of_a_rack_and_of_a_node_tells_the_rack(name, rack):
    assert rack_of(name) == rack


@pytest.mark.parametrize(
    "name",
    ["a100-hwe", "deb-l40s", "gpu001", "10.0.0.4", "7", "r01", "r740-lab", "server12-3", "dgx-a100-04"],
)
def test_another_name_tells_no_rack(name):
    assert rack_of(name) == ""
