"""`ports` in the JSON of gdr doctor: every port as the kernel shows it, with its rail."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from gdrkit.cli import main
from gdrkit.cli.doctor import named
from tests.evidence_nodes import build, diagnosed, laid_down


def ports(target, capsys):
    main(["doctor", str(target), "--json"])
    return json.loads(capsys.readouterr().out)["ports"]


def test_each_port_has_its_rail_and_one_that_is_turned_off_says_so(capsys):
    found = ports(laid_down("rail-down"), capsys)
    assert [(port["device"], port["port"], port["rail"]) for port in found] == [
        (f"mlx5_{number}", 1, number) for number in range(8)
    ]
    *up, down = found
    assert {(port["state"], port["phys_state"]) for port in up} == {("ACTIVE", "LinkUp")}
    assert (down["state"], down["phys_state"]) == ("DOWN", "Disabled")
    assert {(port["rate_gbit_per_s"], port["link_layer"]) for port in up} == {(400.0, "InfiniBand")}
    assert up[0]["netdev"] == "ibp18s0"


def test_ports_that_all_gpus_share_are_no_rails(capsys):
    found = ports(laid_down("spark-two-cables"), capsys)
    assert {port["device"] for port in found} == {
        "rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1",
    }  # fmt: skip
    assert {(port["rail"], port["link_layer"], port["rate_gbit_per_s"]) for port in found} == {
        (None, "Ethernet", 200.0)
    }


@pytest.mark.parametrize("name", ["no-rdma-device", "wsl2"])
def test_a_node_without_ports_to_see_has_none(name, capsys):
    assert ports(laid_down(name), capsys) == []


def test_what_the_kernel_does_not_show_is_empty_and_not_a_state(tmp_path, capsys):
    node = build("rail-down", tmp_path)
    for file in node.rglob("mlx5_7/ports/1/*state"):
        file.unlink()
    *others, last = ports(node, capsys)
    assert (last["device"], last["rail"], last["state"], last["phys_state"]) == ("mlx5_7", 7, "", "")
    assert {port["state"] for port in others} == {"ACTIVE"}


def test_the_advice_of_a_finding_names_the_target_in_json_as_in_the_terminal():
    whole = diagnosed("rail-down")
    first, *others = whole.findings
    asked = replace(whole, findings=(replace(first, advice="Run `gdr fix --steps release-gpu`."), *others))

    assert named(asked, "a b.tar.gz")[0].advice == "Run `gdr fix --steps release-gpu 'a b.tar.gz'`."
    assert named(asked, None)[0].advice == "Run `gdr fix --steps release-gpu`."
    assert named(asked, "a.tar.gz")[1:] == tuple(others)
