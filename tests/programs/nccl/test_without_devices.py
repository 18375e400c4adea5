"""Settings that leave NCCL without a NIC, and those that leave it some: on a whole machine with eight."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.diagnosis import node_of
from gdrkit.evidence.target import open_host
from gdrkit.verdict import judge_node
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import build


def left(tmp_path: Path, line: str) -> tuple[str, str | None, str, set[str]]:
    """NCCL's state, what it is left with, the state of its GIN, and the devices that findings name."""
    tree = build("ubuntu-6.8-h100", tmp_path)
    (tree / "gdr_manifest.json").unlink()
    (tree / "etc/nccl.conf").write_text(f"{line}\n")
    found = judge_node(node_of(open_host(str(tree))))
    named = {one.subject for one in found.findings if one.code == "hca-not-selected"}
    return found.of("nccl").state, found.of("nccl").best_fallback, found.of("nccl-gin").state, named


@pytest.mark.parametrize("value", ["mlx5_bond_0", "=mlx5", "^mlx5"])
def test_a_list_that_names_no_device_leaves_tcp(tmp_path: Path, value: str):
    """NET/IB finds no device, so that nothing is copied through host memory to a NIC either."""
    state, fallback, gin, named = left(tmp_path, f"NCCL_IB_HCA={value}")

    assert (state, fallback, gin) == (State.BLOCKED, "socket", State.BLOCKED)
    assert "mlx5_0" in named


def test_the_switch_of_the_network_leaves_tcp_as_well(tmp_path: Path):
    state, fallback, gin, _ = left(tmp_path, "NCCL_IB_DISABLE=1")

    assert (state, fallback, gin) == (State.BLOCKED, "socket", State.BLOCKED)


def test_a_list_that_names_one_device_leaves_copies_through_host_memory(tmp_path: Path):
    state, fallback, _, named = left(tmp_path, "NCCL_IB_HCA==mlx5_0")

    assert (state, fallback) == (State.BLOCKED, "staged")
    assert "mlx5_0" not in named and "mlx5_1" in named


@pytest.mark.parametrize("line", ["NCCL_IB_HCA=mlx5", "NCCL_IB_HCA=^mlx5_bond_0", "NCCL_IB_DISABLE=0"])
def test_settings_that_leave_every_device(tmp_path: Path, line: str):
    assert left(tmp_path, line)[0] is State.READY
