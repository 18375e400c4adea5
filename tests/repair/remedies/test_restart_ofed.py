"""OFED is installed, and the kernel's own RDMA stack still runs: a restart comes before nvidia-peermem."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies.load_peermem import LOAD_PEERMEM
from gdrkit.repair.remedies.plan import plan
from gdrkit.repair.remedies.restart_ofed import RESTART_OFED, waits_for_restart
from gdrkit.verdict import judge_node
from tests.evidence_builder import node as builder
from tests.evidence_nodes import FOLDER, laid_down


def with_inbox_running(name: str, folder: Path) -> Node:
    """A node of tests/evidence with OFED, as it is after the installation and before a restart."""
    shutil.copy(FOLDER / "presets.toml", folder / "presets.toml")
    shutil.copytree(FOLDER / name, folder / name)
    spec = folder / name / "node.toml"
    before = spec.read_text()
    spec.write_text(before.replace("[rdma]\n", '[rdma]\nloaded_from = "inbox"\n', 1))
    assert spec.read_text() != before
    (folder / "out").mkdir()
    return Node(open_host(str(builder.write(folder / name, folder / "out"))))


@pytest.mark.parametrize("name", ["ofed-rebuilt"])
def test_every_plan_for_peermem_restarts_ofed_first(name, tmp_path):
    node = with_inbox_running(name, tmp_path)
    assert waits_for_restart(node)
    with pytest.raises(EvidenceMissing):
        tuple(LOAD_PEERMEM.effect(node))
    plans = [[step.remedy.name for step in chain] for chain in plan(node, judge_node(node), "nccl")]
    assert plans
    for names in plans:
        assert names.index("restart-ofed") < names.index("load-peermem")
        assert names.index("rebuild-driver") < names.index("load-peermem")


def test_the_restart_is_by_hand_because_it_cuts_every_link(tmp_path):
    node = with_inbox_running("ofed-rebuilt", tmp_path)
    found = procedure_for(node, RESTART_OFED, ProcedureChoices())
    assert found.by_hand and "reboot" in found.actions[-1].what


@pytest.mark.parametrize(
    "name", ["ofed-rebuilt", "peermem-blacklisted", "ofed-removed", "gpu-operator-stub"]
)
def test_it_is_not_possible_where_ofed_runs_or_is_not_installed(name):
    node = Node(open_host(str(laid_down(name))))
    assert not waits_for_restart(node)
    with pytest.raises(EvidenceMissing):
        tuple(RESTART_OFED.effect(node))
