"""Saved topologies as machines to configure."""

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
