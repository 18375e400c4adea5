"""Saved topologies as machines to configure."""

import pytest

from gdrkit.fabric.topology.for_config import saved_machine
from gdrkit.fabric.topology.from_file import read_topology

MATRIX = "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\nGPU0\t X \tSYS\tPXB\tSYS\nGPU1\tSYS\t X \tSYS\tNODE\n"


def saved(text):
    return saved_machine(read_topology(text.encode()).topology)


def test_each_gpu_has_its_nearest_ports():
    found = saved(MATRIX)
    assert [(pair.gpu, pair.device, word) for pair, word in found.nearest] == [
        ("GPU0", "mlx5_0", "PXB"),
        ("GPU1", "mlx5_1", "NODE"),
    ]
    assert [port.device for port in found.ports] == ["mlx5_0", "mlx5_1"]


def test_equally_near_ports_are_all_named():
    found = saved(MATRIX.replace("PXB\tSYS", "PXB\tPXB"))
    assert [pair.device for pair, _ in found.nearest][:2] == ["mlx5_0", "mlx5_1"]


def test_a_matrix_does_not_tell_the_kind_of_a_gpu():
    assert (saved(MATRIX).coherent, saved(MATRIX).integrated) == (False, False)


def test_the_pci_id_tells_a_gpu_without_memory_of_its_own():
    text = (
        '<system version="1"><cpu numaid="0" arch="arm64"><pci busid="000f:01:00.0" class="0x030000" '
        'device="0x2e12" link_speed="2.5 GT/s PCIe" link_width="1"/></cpu></system>'
    )
    assert saved(text).integrated


@pytest.mark.parametrize(
    "name",
    [
        "mlx5_9&#10;NCCL_IB_DISABLE=1",
        "mlx5_9 NCCL_IB_DISABLE=1",
        "mlx5_9,mlx5_1",
        "$(id)",
        "=",
        "^a",
        "a&#27;",
    ],
)
def test_a_name_that_no_kernel_gives_is_written_into_no_setting(name):
    def devices(name):
        nics = "".join(
            f'<pci busid="0000:0{at}:00.0" class="0x020000"><nic><net name="{net}" port="1"/></nic></pci>'
            for at, net in enumerate(("mlx5_1", name), 3)
        )
        gpu = '<pci busid="0000:02:00.0" class="0x030200"><gpu dev="0"/></pci>'
        found = saved(
            '<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0" class="0x060400">'
            f"{gpu}{nics}</pci></cpu></system>"
        )
        assert {pair.device for pair, _ in found.nearest} == {port.device for port in found.ports}
        return [port.device for port in found.ports]

    assert devices(name) == ["mlx5_1"]
    assert devices("mlx5_2") == ["mlx5_1", "mlx5_2"]
