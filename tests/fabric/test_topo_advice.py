"""What is advised where NCCL would use no direct path."""

from __future__ import annotations

import pytest

from gdrkit.fabric.topo_document import build
from gdrkit.fabric.topology.from_file import read_topology
from gdrkit.fabric.topology.saved import of_node
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.programs.nccl.releases import NEWEST
from tests.hardware import BARE_METAL, GUEST, machine

CARDS = """<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:20:00.0" class="0x030200" {gpu} link_speed="32.0 GT/s PCIe" link_width="16">
      {details}
    </pci>
    <pci busid="0000:30:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
      <nic>{nets}</nic>
    </pci>
  </cpu>
</system>
"""
NET = '<net name="mlx5_{n}" dev="{n}" speed="400000" port="{n}" guid="{guid}" maxconn="1" gdr="{gdr}"/>'


def advised(*guids, gdr=1, gpu="", gpu_gdr=1, dumped=True, environment=None):
    nets = "".join(NET.format(n=n, guid=guid, gdr=gdr) for n, guid in enumerate(guids))
    details = f'<gpu dev="0" sm="90" rank="0" gdr="{gpu_gdr}"/>' if dumped else ""
    text = CARDS.format(nets=nets, gpu=gpu, details=details)
    saved = read_topology(text.encode())
    return "; ".join(build("file", saved, NEWEST, environment or {}).advice)


@pytest.mark.parametrize(
    "guids, expected",
    [(["0x5a"], False), (["0x5a", "0x5a"], False), (["0x5a", "0x5b"], True), (["0x5a"] * 3, True)],
)
def test_cards_that_nccl_takes_for_one_are_to_be_kept_apart(guids, expected):
    """Two ports of one GUID are one card; more ports, or other GUIDs, are several."""
    assert ("NCCL_IB_MERGE_VFS=0" in advised(*guids)) is expected


def test_a_dump_names_the_level_that_helps_and_the_tree_of_the_host():
    words = advised("0x5a")
    assert "NCCL_TOPO_FILE" in words
    assert "NCCL_NET_GDR_LEVEL=PHB: then 2 of 2 directions" in words


def test_a_file_written_by_hand_is_not_told_to_write_one():
    words = advised("0x5a", dumped=False)
    assert "NCCL_TOPO_FILE" not in words
    assert "NCCL_NET_GDR_LEVEL=PHB" in words


def test_with_a_level_that_allows_it_nothing_is_advised():
    assert advised("0x5a", environment={"NCCL_NET_GDR_LEVEL": "PHB"}) == ""


@pytest.mark.parametrize(
    "options, words",
    [({"gpu": 'device="0x2684"', "gpu_gdr": 0}, "no setting changes this: NVIDIA does not support"),
     ({"gdr": 0}, "gdr doctor on the machine"),
     ({"environment": {"NCCL_IB_DISABLE": "1"}}, "unset NCCL_IB_DISABLE")],
)  # fmt: skip
def test_a_distance_is_not_blamed_for_another_cause(options, words):
    found = advised("0x5a", **options)
    assert words in found
    assert "NCCL_NET_GDR_LEVEL" not in found


def test_a_geforce_beside_another_gpu_does_not_hide_what_helps_that_one():
    text = (
        "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-0a)\nGPU 1: NVIDIA A100 (UUID: GPU-0b)\n"
        "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tPHB\tPIX\nGPU1\tPHB\t X \tSYS\n"
    )
    words = "; ".join(build("file", read_topology(text.encode()), NEWEST, {}).advice)

    assert "no setting changes this: NVIDIA does not support GPUDirect RDMA on GeForce" in words
    assert "set NCCL_NET_GDR_LEVEL=SYS: then 2 of 4 directions" in words


ROW = "\tGPU0\tNIC0\nGPU0\t X \tNODE\n"


@pytest.mark.parametrize(
    ("listed", "level"),
    [
        (
            "",
            "if these GPUs can do it, as data-centre GPUs can, and a GeForce or a GB10 never can: set NCCL",
        ),
        ("GPU 0: NVIDIA GB10 (UUID: GPU-0a)\n", ""),
        ("GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-0a)\n", ""),
    ],
)
def test_a_level_is_advised_for_gpus_that_can_use_it(listed: str, level: str):
    """A matrix alone does not show which GPUs these are; a dump of NCCL does."""
    words = build("file", read_topology(f"{listed}{ROW}".encode()), NEWEST, {}).advice

    assert words[0].startswith(level or "no setting changes this")
    assert any("NCCL_NET_GDR_LEVEL" in word for word in words) is bool(level)
    assert advised("0x5a", dumped=True).startswith("set NCCL_NET_GDR_LEVEL=PHB: then")


APART = """
0000:15:01.0 spr-root numa=0
  0000:1b:00.0 h100-sxm
0000:25:01.0 spr-root numa=0
  0000:2b:00.0 cx7-ib rdma=mlx5_0
"""


@pytest.mark.parametrize(("files", "first"), [(GUEST, True), (BARE_METAL, None), ({}, False)])
def test_a_virtual_machine_s_tree_is_spoken_of_only_where_there_may_be_one(files, first: bool | None):
    """First where it is one, second where that is not known, and not at all on bare metal."""
    node = machine(APART, files=files).after("driver", [is_loaded.becomes(True, DRIVER)])
    words = build("node", of_node(node), NEWEST, {}).advice

    of_guests = [word.startswith("in a virtual machine") for word in words]
    assert of_guests == {True: [True, False], None: [False], False: [False, True]}[first]
