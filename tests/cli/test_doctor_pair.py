"""`gdr doctor A B`: two nodes, and what must be the same on both."""

from __future__ import annotations

import copy
import json

import pytest
from machines.compose import write
from machines.fleet import fleet

from gdrkit.cli import main

FLEET = fleet(0, 2)
BASE = next(machine for machine in FLEET.machines if machine.name != FLEET.planted)


def pair(tmp_path, change):
    """Two bundles of a machine, the second one changed."""
    paths = []
    for name in ("left", "right"):
        machine = copy.deepcopy(BASE)
        machine.name = name
        if name == "right":
            change(machine)
        paths.append(str(write(machine, tmp_path)))
    return paths


def another_nccl(machine):
    machine.libraries.nccl = "2.28.9" if machine.libraries.nccl != "2.28.9" else "2.29.2"


def a_smaller_mtu(machine):
    for nic in machine.nics:
        at = f"sys/class/net/{nic.net}"
        machine.dropped.append(at)
        machine.files[f"{at}/mtu"] = "1500\n"


def settings(machine):
    machine.nccl_conf["NCCL_IB_TIMEOUT"] = "22"


def no_direct_path(machine):
    machine.driver.loaded = False


@pytest.mark.parametrize(
    ("change", "trait", "shows_as"),
    [
        (another_nccl, "NCCL: ", "Mismatched NCCL version detected"),
        (a_smaller_mtu, "MTU: 9000; there 1500", "LOC_LEN_ERR"),
        (settings, "NCCL settings: ", "NCCL DIAG environment"),
        (no_direct_path, "paths: ", "loses GDRDMA"),
    ],
)
def test_a_mismatch_is_shown_with_the_message_by_which_it_shows(tmp_path, capsys, change, trait, shows_as):
    code = main(["doctor", *pair(tmp_path, change)])
    printed = " ".join(capsys.readouterr().out.split())

    assert code == (2 if change is no_direct_path else 1)
    before, _, after = printed.partition("Must be the same for a job on both")
    assert trait in after and shows_as in after
    assert before.startswith("left: ") and "right: " in before


def test_two_equal_nodes_have_no_difference(tmp_path, capsys):
    assert main(["doctor", *pair(tmp_path, lambda machine: None)]) == 0
    assert "no difference in what is compared" in capsys.readouterr().out


def test_what_may_differ_is_listed_apart_and_changes_no_exit_code(tmp_path, capsys):
    def another_ucx(machine):
        machine.libraries.ucx = "1.18.0" if machine.libraries.ucx != "1.18.0" else "1.19.0"

    assert main(["doctor", *pair(tmp_path, another_ucx)]) == 0
    printed = capsys.readouterr().out
    assert "Must be the same" not in printed and "UCX: " in printed.partition("Differs")[2]


def test_json_is_the_document_of_a_fleet(tmp_path, capsys):
    main(["doctor", *pair(tmp_path, another_nccl), "--json"])
    document = json.loads(capsys.readouterr().out)

    assert document["schema"] == "gdrkit.fleet/1"
    assert [row["trait"] for row in document["mismatches"]] == ["NCCL"]


def test_options_for_one_node_are_refused_with_two(tmp_path, capsys):
    assert main(["doctor", "a", "b", "--line"]) == 64
    assert "--line has no effect with two nodes" in capsys.readouterr().err
