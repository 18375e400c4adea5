"""NCCL's view of a matrix agrees with its view of the same machine's tree."""

from __future__ import annotations

import pytest

from gdrkit.fabric.nccl.view import view
from gdrkit.fabric.nccl.view_of_matrix import matrix_view
from gdrkit.fabric.topology import from_file
from gdrkit.programs.nccl.releases import NEWEST, OLDEST
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


GEFORCE = "NVIDIA does not support GPUDirect RDMA on GeForce GPUs"
INTEGRATED = "this GPU has no memory of its own that a NIC could reach"
LIST = "GPU 0: {0} (UUID: GPU-0a)\nGPU 1: {1} (UUID: GPU-0b)\n"
TABLE = (
    "|   0  {0}        Off |   00000000:01:00.0 Off |                  Off |\n"
    "|   1  {1}        Off |   00000000:41:00.0 Off |                  Off |\n"
)
LSPCI = (
    "41:00.0 3D controller: NVIDIA Corporation {1} (rev a1)\n"
    "01:00.0 VGA compatible controller: NVIDIA Corporation {0} (rev a1)\n"
)


@pytest.mark.parametrize(
    ("listing", "names", "why"),
    [
        (LIST, ("NVIDIA GeForce RTX 4090", "NVIDIA H100 PCIe"), (GEFORCE, "")),
        (TABLE, ("NVIDIA GeForce RTX 4090", "NVIDIA H100 PCIe"), (GEFORCE, "")),
        (LSPCI, ("AD102 [GeForce RTX 4090]", "GH100 [H100 PCIe]"), (GEFORCE, "")),
        (LSPCI, ("Device [10de:2684]", "Device [10de:2331]"), (GEFORCE, "")),  # by PCI id alone
        (LIST, ("NVIDIA H100 PCIe", "NVIDIA GB10"), ("", INTEGRATED)),
        (LIST, ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA L40S"), ("", "")),
        (LIST + LIST.replace("{0}", "Tesla T4"), ("NVIDIA TITAN V", "NVIDIA H100 PCIe"), ("", "")),
        (LSPCI + LSPCI.replace("01:", "81:"), ("Device [10de:2684]", "Device [10de:2331]"), ("", "")),
    ],
)
def test_a_list_of_gpus_beside_the_matrix_tells_which_never_do_it(listing, names, why):
    """Not a number with two names, nor an lspci with other GPUs than the matrix has."""
    found = matrix_view(
        read(listing.format(*names) + MATRIX).topology, NEWEST, {"NCCL_NET_GDR_LEVEL": "SYS"}
    )
    assert tuple(found.pairs[gpu, "mlx5_0"].receive.because for gpu in ("GPU0", "GPU1")) == why


def test_the_lasting_reason_comes_before_the_distance():
    found = matrix_view(
        read(LIST.format("NVIDIA A100", "NVIDIA GeForce RTX 3090") + PCIE).topology, NEWEST, {}
    )
    assert found.pairs["GPU1", "mlx5_0"].receive.because == GEFORCE
