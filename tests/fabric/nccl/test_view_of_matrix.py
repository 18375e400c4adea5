"""NCCL's view of a matrix agrees with its view of the same machine's tree."""

from __future__ import annotations

import pytest

from gdrkit.consumers.nccl_releases import NEWEST, OLDEST
from gdrkit.fabric.nccl.view import view
from gdrkit.fabric.nccl.view_of_matrix import matrix_view
from gdrkit.fabric.topology import from_file
from tests.fabric.nccl.test_view import TWO_SOCKETS

MATRIX = "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\tPIX\nGPU1\tNV18\t X \tSYS\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
PCIE = MATRIX.replace("NV18", "SYS")


def read(text):
    return from_file.read_topology(text.encode())


@pytest.mark.parametrize("version", [OLDEST, "2.18.1", "2.20.3", "2.27.5", "2.29.2", NEWEST])
@pytest.mark.parametrize(
    "environment",
    [{}, {"NCCL_NET_GDR_LEVEL": "SYS"}, {"NCCL_NET_GDR_LEVEL": "LOC"}, {"NCCL_PXN_DISABLE": "1"},
     {"NCCL_NET_GDR_READ": "0"}, {"NCCL_IB_HCA": "^mlx5_0"}, {"NCCL_P2P_DISABLE": "1"}],
)  # fmt: skip
def test_a_matrix_and_the_tree_of_the_same_machine_give_the_same_answer(version, environment):
    by_matrix = matrix_view(read(MATRIX).topology, version, environment).pairs
    by_tree = view(read(TWO_SOCKETS.format(gdr=1)), version, environment).pairs
    names = {"GPU0": "0000:1b:00.0", "GPU1": "0000:4b:00.0"}
    for (gpu, net), pair in by_matrix.items():
        other = by_tree[names[gpu], net]
        assert pair.path == other.path
        assert pair.receive.direct == other.receive.direct
        assert (pair.send.direct, names.get(pair.send.through, "")) == (
            other.send.direct,
            other.send.through,
        )


def test_without_nvlink_no_gpu_sends_for_another_one():
    found = matrix_view(read(PCIE).topology, NEWEST, {}).pairs
    assert found["GPU1", "mlx5_0"].send.because == "SYS is farther than PXB"
    assert found["GPU0", "mlx5_0"].send.direct


def test_a_pair_without_a_cell_is_left_out():
    cut = read("\tGPU0\tGPU1\tNIC0\nGPU0\t X \tSYS\tPIX\n").topology
    assert set(matrix_view(cut, NEWEST, {}).pairs) == {("GPU0", "NIC0")}


def test_bandwidths_are_not_known():
    assert matrix_view(read(MATRIX).topology, NEWEST, {}).pairs["GPU0", "mlx5_0"].gbyte_per_s is None
