"""A node with a topology file for NCCL: NCCL's paths are those of the file."""

from __future__ import annotations

import pytest

from gdrkit.fabric.nccl.view import view
from gdrkit.fabric.topology.saved import of_node
from tests.hardware import GUEST, machine

FLAT = """
0000:00:08.0 qemu-root
  0000:10:00.0 h100-sxm
0000:00:09.0 qemu-root
  0000:11:00.0 h100-sxm
0000:00:10.0 qemu-root
  0000:20:00.0 cx7-ib rdma=mlx5_0
0000:00:11.0 qemu-root
  0000:21:00.0 cx7-ib rdma=mlx5_1
"""
FILE = "run/nvidia-topologyd/virtualTopology.xml"
BESIDE = """<system version="1"><cpu numaid="-1" arch="x86_64" vendor="GenuineIntel" affinity="ff">
<pci busid="ffff:ff:01.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<pci busid="0000:10:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
<pci busid="0000:20:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
</pci></cpu></system>"""


def paths(files):
    saved = of_node(machine(FLAT, files=GUEST | files), ask_driver=False)
    pairs = view(saved, "2.27.5", {}).pairs
    return {pair: str(found.path) for pair, found in pairs.items()}, saved.topology.notes


def test_a_pair_below_one_switch_of_the_file_is_near():
    """The other GPU and NIC, which the file does not have, stay where the kernel shows them."""
    found, notes = paths({FILE: BESIDE})

    assert found["0000:10:00.0", "mlx5_0"] == "PIX"
    assert {path for pair, path in found.items() if pair != ("0000:10:00.0", "mlx5_0")} == {"PHB"}
    assert any(FILE in note for note in notes)


def test_without_the_file_every_pair_is_as_far_as_the_kernel_shows():
    found, notes = paths({})

    assert set(found.values()) == {"PHB"}
    assert len(found) == 4
    assert not any("topology file" in note for note in notes)


@pytest.mark.parametrize("content", ["", "<system", "<graphs/>", BESIDE.replace("0000:10:00.0", "GPU 0")])
def test_a_file_that_cannot_be_read_changes_no_path_and_is_noted(content):
    found, notes = paths({FILE: content})

    assert set(found.values()) == {"PHB"}
    assert any("topology" in note and FILE in note for note in notes)


def test_a_setting_names_another_file():
    other = {"etc/nccl.conf": "NCCL_TOPO_FILE=/etc/topo.xml\n", "etc/topo.xml": BESIDE}

    assert paths(other)[0]["0000:10:00.0", "mlx5_0"] == "PIX"
