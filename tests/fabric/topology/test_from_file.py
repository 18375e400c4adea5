"""Saved files, recognised by content."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fabric.topo_document import build
from gdrkit.fabric.topology import from_file
from gdrkit.fabric.topology.graph import NvLink, SmiPath
from gdrkit.fabric.topology.paths import smi_paths
from gdrkit.fabric.topology.saved import TopologyFileKind as Kind
from gdrkit.formats.errors import FormatError
from tests.explain.outputs.test_topologies import SPARK, WITH_ITS_GPU
from tests.fabric.topology.test_from_hwloc import EXPORTED
from tests.fabric.topology.xml_files import DUMP
from tests.shared_data import shared_files

MATRIX = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV18\tPIX\t0-31\t0\nGPU1\tNV18\t X \tSYS\t32-63\t1\nNIC0\tPIX\tSYS\t X \t\t\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n"
)
DRAWING = """-+-[0000:15]---01.0-[16-19]----00.0-[17-19]--+-00.0-[18]----00.0  Mellanox Technologies MT2910
 |                                           \\-01.0-[19]--+-00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
 |                                                        \\-00.1  NVIDIA Corporation GH100 Audio Controller
 +-[0000:26]---01.0-[27]----00.0  Mellanox Technologies MT2910
 \\-[0000:00]-+-00.0  Intel Corporation Device 09a2
"""
LISTING = """15:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a]
\tBus: primary=15, secondary=16, subordinate=16, sec-latency=0
16:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tNUMA node: 0
"""


@pytest.mark.parametrize(
    "content, kind",
    [(DUMP, Kind.NCCL), ("<!-- made by <us> -->\n" + DUMP, Kind.NCCL), (EXPORTED.read_text(), Kind.HWLOC),
     ("<?xml version='1.0'?>\n<!DOCTYPE system SYSTEM 'a.dtd'>\n<!-- a > b -->" + DUMP, Kind.NCCL),
     (MATRIX, Kind.MATRIX), ("$ nvidia-smi topo -m\n" + MATRIX, Kind.MATRIX), (DRAWING, Kind.DRAWING),
     (LISTING, Kind.LSPCI)],
)  # fmt: skip
def test_a_file_is_recognised_by_its_content(content, kind):
    saved = from_file.read_topology(content.encode())
    assert saved.kind is kind
    assert saved.topology.gpus
    assert (saved.system is not None) == (kind is Kind.NCCL)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x1f\x8b\0\0",
        b"hello",
        b"<html></html>",
        b"[]",
        b"# GPU0\n",
        b"<!-- a > <system version='1'/>",
    ],
)
def test_other_files_are_not_topologies(content):
    assert from_file.kind_of(content) is None
    with pytest.raises(FormatError):
        from_file.read_topology(content)


def test_a_line_that_begins_as_a_listing_does_is_no_listing_without_a_device():
    """It says what is wrong with the text, not what to read on a machine."""
    with pytest.raises(FormatError, match=r"no device in the output of lspci: 16:00\.0 lunch"):
        from_file.read_topology(b"16:00.0 lunch\n")


def test_a_listing_of_more_gpus_than_any_machine_has_is_refused():
    gpu = "0000:{:02x}:{:02x}.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"
    listing = "".join(gpu.format(number >> 5, number & 31) for number in range(8192))
    with pytest.raises(FormatError, match="8192 GPUs are more than one machine has"):
        from_file.read_topology(listing.encode())


def test_the_dialect_of_rccl_is_refused_in_one_sentence():
    with pytest.raises(FormatError, match="RCCL, for AMD GPUs"):
        from_file.read_topology(b'<system version="2"><cpu><pci busid="0000:c1:00.0"/></cpu></system>')


def test_a_matrix_has_only_distances_and_bonds():
    found = from_file.read_topology(MATRIX.encode()).topology
    assert smi_paths(found, found.gpus[0], found.nets[0]) == (SmiPath.PIX,)
    assert found.gpus[0].nvlinks == (NvLink("GPU1", 18),)
    assert [found.numa_node(gpu) for gpu in found.gpus] == [0, 1]
    assert found.devices == ()


def test_a_drawing_has_the_tree_and_no_numa_nodes():
    found = from_file.read_topology(DRAWING.encode()).topology
    assert [gpu.id for gpu in found.gpus] == ["0000:19:00.0"], "its audio function is no GPU"
    near, far = found.nets
    assert smi_paths(found, found.gpus[0], near) == (SmiPath.PIX,)
    assert smi_paths(found, found.gpus[0], far) == (SmiPath.NODE, SmiPath.SYS)


def test_a_drawing_without_names_is_refused():
    bare = "\n".join(line.partition("  ")[0] for line in DRAWING.splitlines())
    with pytest.raises(FormatError, match="lspci -tv"):
        from_file.read_topology(bare.encode())


def test_a_listing_has_links_numa_nodes_and_bridges():
    found = from_file.read_topology(LISTING.encode()).topology
    assert found.by_address["0000:16:00.0"].parent == "0000:15:01.0"
    assert found.numa_node(found.gpus[0]) == 0


@pytest.mark.parametrize("path", shared_files("data/topologies/*.xml", "data/h200x2/topo.txt"))
def test_public_files_are_read_or_refused_by_name(path):
    if "rccl" in path.name:
        with pytest.raises(FormatError, match="RCCL"):
            from_file.read_topology(path.read_bytes())
    else:
        assert from_file.read_topology(path.read_bytes()).topology.origin


PARTS = ["<system", ' version="1"', ">", "<cpu/>", "</system>", "<topology>", "GPU0\t", "X\n", "PIX",
         "-[0000:00]-", "+-01.0", "00:01.0 3D controller: x", "\n", "\0"]  # fmt: skip


@given(st.binary() | st.lists(st.sampled_from(PARTS)).map(lambda parts: "".join(parts).encode()))
def test_any_bytes_give_a_graph_or_a_format_error(content):
    with contextlib.suppress(FormatError):
        from_file.read_topology(content)


def test_xml_in_a_code_fence_is_read_as_the_same_file():
    post = f"Our node, dumped by NCCL:\n\n```xml\n{DUMP}\n```\n\nWhy PHB?\n"

    assert from_file.kind_of(post.encode()) is Kind.NCCL
    found, alone = (from_file.read_topology(text.encode()).topology for text in (post, DUMP))
    assert (found.gpus, found.nets) == (alone.gpus, alone.nets)


@pytest.mark.parametrize("inner", ["<graphs></graphs", "<html></html>", "# GPU0\n<system>", ""])
def test_a_fence_with_something_else_is_no_topology(inner: str):
    assert from_file.kind_of(f"words\n```\n{inner}\n```\n".encode()) is None


def test_a_name_beside_a_matrix_decides_for_all_its_pairs():
    """A product without GPUDirect RDMA is the lasting reason, however near its NIC is."""
    listed = "GPU 0: NVIDIA GeForce RTX 3090\nGPU 1: NVIDIA A30\n\n"
    found = from_file.read_topology((listed + MATRIX).encode()).topology

    assert [gpu.name for gpu in found.gpus] == ["NVIDIA GeForce RTX 3090", "NVIDIA A30"]


LOGGED = (
    "n1:47:48 [0] NCCL INFO === System : maxBw 24.0 totalBw 24.0 ===\n"
    "n1:47:48 [0] NCCL INFO CPU/0-0 (1/1/2)\n"
    "n1:47:48 [0] NCCL INFO + PCI[24.0] - GPU/0-4e000 (0)\n"
    "n1:47:48 [0] NCCL INFO + PCI[24.0] - GPU/0-4f000 (1)\n"
    "n1:47:48 [0] NCCL INFO ==========================================\n"
)
RANKS = "#  Rank  {0} Group  0 Pid     47 on n1 device  {0} [0x4e] {1}\n"


def test_the_tree_of_a_log_has_the_product_that_its_test_lists():
    ranks = RANKS.format(0, "NVIDIA GeForce RTX 4090") + RANKS.format(1, "NVIDIA GeForce RTX 4090")
    mixed = RANKS.format(0, "NVIDIA GeForce RTX 4090") + RANKS.format(1, "NVIDIA L40S")

    for listed, name in ((ranks, "NVIDIA GeForce RTX 4090"), (mixed, ""), ("", "")):
        found = from_file.read_topology((listed + LOGGED).encode()).topology
        assert [gpu.name for gpu in found.gpus] == [name, name]


@pytest.mark.parametrize(
    ("listed", "is_spark"), [("", True), (WITH_ITS_GPU, True), ("GPU 0: NVIDIA L4 (UUID: GPU-1)\n", False)]
)
def test_a_matrix_with_the_four_devices_of_a_spark_is_of_a_gpu_that_no_setting_helps(listed, is_spark):
    saved = from_file.read_topology((listed + SPARK).encode())
    document = build("text", saved, "", {})

    assert (saved.topology.gpus[0].is_integrated or False) is is_spark
    assert (
        any(note.startswith("NODE is what every machine like a DGX Spark") for note in saved.topology.notes)
        is is_spark
    )
    if is_spark:
        assert document.nccl is not None and not document.nccl.assumed
        assert document.advice[0].startswith("no setting changes this: this GPU has no memory of its own")
