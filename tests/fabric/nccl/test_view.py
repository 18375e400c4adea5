"""NCCL's view of a graph: the paths of the machine, and NCCL's decisions."""

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.fabric.nccl.view import view
from gdrkit.fabric.topology import from_file, from_node
from gdrkit.fabric.topology.graph import NcclPath
from gdrkit.fabric.topology.saved import SavedTopology
from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from gdrkit.programs.nccl.releases import NEWEST, OLDEST
from tests.evidence_nodes import build
from tests.fabric.topology.test_from_hwloc import EXPORTED
from tests.fabric.topology.xml_files import DUMP, ONE_SWITCH
from tests.shared_data import shared_files

TWO_SOCKETS = """<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" maxconn="1" gdr="{gdr}"/></nic>
      </pci>
      <pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:4b:00.0" count="18" tclass="0x030200"/></gpu>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:4b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:1b:00.0" count="18" tclass="0x030200"/></gpu>
    </pci>
  </cpu>
</system>
"""
NEAR, FAR = ("0000:1b:00.0", "mlx5_0"), ("0000:4b:00.0", "mlx5_0")


def read(text):
    return from_file.read_topology(text.encode())


def judge(saved, environment, version="2.27.5"):
    return view(saved, version, environment)


def test_a_refused_pair_keeps_the_path_of_the_hardware():
    refused = judge(read(TWO_SOCKETS.format(gdr=0)), {}).pairs[NEAR]
    allowed = judge(read(TWO_SOCKETS.format(gdr=1)), {}).pairs[NEAR]
    assert (refused.path, allowed.path) == ("PIX", "PIX"), "NCCL's own table says PHB of the first"
    assert refused.receive.because == "the NIC's side does not support it"
    assert allowed.receive.because == ""
    assert allowed.gbyte_per_s == 48.0


def test_a_far_gpu_sends_through_a_near_one():
    pair = judge(read(TWO_SOCKETS.format(gdr=1)), {}).pairs[FAR]
    assert pair.path == "SYS"
    assert pair.send.through == "0000:1b:00.0"
    assert pair.receive.through == "", "receives are never led through another GPU"


def test_without_pxn_the_distance_counts():
    pair = judge(read(TWO_SOCKETS.format(gdr=1)), {"NCCL_PXN_DISABLE": "1"}).pairs[FAR]
    assert pair.send.because == "SYS is farther than PXB"


@pytest.mark.parametrize(
    "environment, because",
    [({"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE"), ({"NCCL_IB_HCA": "^mlx5_0"}, "NCCL_IB_HCA=^mlx5_0"),
     ({"NCCL_NET": "Socket"}, "NCCL_NET=Socket"), ({"NCCL_NET_GDR_LEVEL": "LOC"}, "PIX is farther than LOC"),
     ({"NCCL_IB_HCA": "mlx5"}, "")],
)  # fmt: skip
def test_variables_have_the_effect_that_they_have_in_nccl(environment, because):
    assert judge(read(TWO_SOCKETS.format(gdr=1)), environment).pairs[NEAR].receive.because == because


def test_a_file_that_nccl_would_refuse_is_completed_with_a_note():
    found = judge(read(DUMP.replace(' numaid="0"', "")), {})
    assert any("numaid" in words for words in found.assumed)
    assert found.pairs


def test_a_handwritten_tree_is_completed_with_a_note():
    found = judge(read(ONE_SWITCH), {})
    assert found.pairs["0000:1b:00.0", "0000:18:00.0"].path == "PIX"
    assert found.assumed


def test_a_port_that_is_down_is_not_used_and_not_fused_with_another(tmp_path):
    """ncclIbInitDevices() uses only active ports; the second port of each function is active here."""
    direct = from_node.topology(Node(open_host(str(build("zgx-3852", tmp_path)))))
    found = view(SavedTopology(direct), NEWEST, {})
    because = {net: pair.receive.because for (_, net), pair in found.pairs.items()}
    assert because["rocep1s0f0"] == because["roceP2p1s0f0"] == "the port is DOWN"
    assert because["rocep1s0f1"] == "this GPU has no memory of its own that a NIC could reach"
    assert found.fused == ()


@pytest.mark.parametrize(
    "device, gdr, because",
    [("0x2684", "0", "NVIDIA does not support GPUDirect RDMA on GeForce GPUs"),
     ("0x2e12", "0", "this GPU has no memory of its own that a NIC could reach"),
     ("0x2330", "0", "the NIC's side does not support it"),
     ("0x2684", "1", "the NIC's side does not support it")],
)  # fmt: skip
def test_a_reason_that_lasts_comes_before_one_that_can_be_removed(device, gdr, because):
    """The last GPU is a GeForce of which NCCL found that it does support it."""
    text = TWO_SOCKETS.format(gdr=0).replace('rank="0" gdr="1"', f'rank="0" gdr="{gdr}"')
    text = text.replace('busid="0000:1b:00.0" class', f'busid="0000:1b:00.0" device="{device}" class')
    assert judge(read(text), {}).pairs[NEAR].receive.because == because


def test_a_geforce_is_not_direct_where_the_file_leaves_its_support_open():
    """The support that is assumed of GPUs is not assumed of a product that lacks it."""
    text = TWO_SOCKETS.format(gdr=1).replace('rank="0" gdr="1"', 'rank="0"')
    for device, direct in (("0x2684", False), ("0x2330", True)):
        own = text.replace('busid="0000:1b:00.0" class', f'busid="0000:1b:00.0" device="{device}" class')
        assert judge(read(own), {}).pairs[NEAR].receive.direct is direct


def test_a_gpu_without_memory_of_its_own_is_not_direct_whatever_the_file_says():
    text = TWO_SOCKETS.format(gdr=1)
    for device, because in (("0x2e12", "this GPU has no memory of its own"), ("0x2330", "")):
        own = text.replace('busid="0000:1b:00.0" class', f'busid="0000:1b:00.0" device="{device}" class')
        found = judge(read(own), {}).pairs[NEAR].receive
        assert (found.direct, found.because[:34].strip()) == (not because, because)


def test_what_nccl_reads_from_its_machine_is_not_called_a_refusal():
    """The form of AWS's g5.48xlarge file: places of functions, and nothing else."""
    bare = '<system version="1"><cpu numaid="0"><pci busid="0000:00:16.0"/></cpu></system>'
    saved = read(bare)
    assert judge(saved, {}).pairs == {}
    assert any("NCCL reads class and link from" in note for note in saved.topology.notes)
    lacks_class = TWO_SOCKETS.format(gdr=1).replace('class="0x060400" ', "")
    found = judge(read(lacks_class), {})
    assert found.pairs[NEAR].path == "PIX", "a function with others below it is a bridge"
    assert any("NCCL reads it from the machine" in words for words in found.assumed)
    assert not any("refuses" in words for words in found.assumed)


def test_a_port_of_unknown_state_counts_as_active():
    net = read(TWO_SOCKETS.format(gdr=1)).topology.nets[0]
    assert net.state == ""
    assert judge(read(TWO_SOCKETS.format(gdr=1)), {}).pairs[NEAR].receive.because == ""


@pytest.mark.parametrize("version", [OLDEST, "2.20.3", "2.24.3", NEWEST])
def test_a_node_has_the_same_paths_from_sysfs_hwloc_and_its_own_nccl_file(version, tmp_path):
    """The rates of ports are unknown to hwloc, so bandwidths may differ; path types may not."""
    from gdrkit.fabric.nccl import writer as nccl_writer

    direct = from_node.topology(Node(open_host(str(build("ubuntu-6.8-h100", tmp_path)))))
    hwloc = from_file.read_topology(EXPORTED.read_bytes())
    saved = from_file.read_topology(nccl_xml.written(nccl_writer.system(direct, details=True)))
    seen = view(SavedTopology(direct), version, {})
    types = {pair: found.path for pair, found in seen.pairs.items()}
    assert set(types.values()) == {"PIX", "PHB", "SYS"}
    assert {pair: found.path for pair, found in view(hwloc, version, {}).pairs.items()} == types
    assert view(saved, version, {}).pairs == seen.pairs


def test_a_missing_class_is_derived_from_what_is_below_the_function():
    bare = TWO_SOCKETS.format(gdr=1).replace(' class="0x030200"', "").replace(' class="0x020700"', "")
    found = judge(read(bare), {})
    assert any("has no class" in words for words in found.assumed)
    assert found.pairs == judge(read(TWO_SOCKETS.format(gdr=1)), {}).pairs


@pytest.mark.parametrize("path", shared_files("data/topologies/*.xml", "data/h200x2/*.xml.txt"))
@pytest.mark.parametrize("version", [OLDEST, "2.24.3", NEWEST])
def test_the_model_computes_every_public_file(version, path):
    try:
        saved = from_file.read_topology(path.read_bytes())
    except FormatError:
        return  # RCCL's, and graphs
    found = view(saved, version, {})
    assert len(found.pairs) == len(saved.topology.gpus) * len(saved.topology.nets)
    assert {pair.path for pair in found.pairs.values()} <= set(NcclPath)
