"""Defaults for what NCCL detects itself, with notes."""

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.fabric.nccl import writer as nccl_writer
from gdrkit.fabric.nccl.view import view
from gdrkit.fabric.topology import from_file, from_nccl_xml, from_node
from gdrkit.fabric.topology.nccl_defaults import completed
from gdrkit.fabric.topology.saved import SavedTopology
from gdrkit.formats import nccl_xml
from gdrkit.node import Node
from gdrkit.programs.nccl.releases import NEWEST
from tests.evidence_nodes import build
from tests.fabric.topology.xml_files import DUMP, ONE_SWITCH


def read(text):
    return from_nccl_xml.topology(nccl_xml.parse(text.encode()))


def test_a_handwritten_tree_gets_gpus_and_nets():
    found, assumed = completed(read(ONE_SWITCH))
    root = nccl_writer.system(found, details=True)
    (gpu,) = [node for node in root.walk() if node.name == "gpu"]
    (net,) = [node for node in root.walk() if node.name == "net"]
    assert gpu.attributes == {"dev": "0", "sm": "80", "rank": "0", "gdr": "1"}
    assert (net.get("name"), net.get("dev"), net.get("gdr")) == ("0000:18:00.0", "0", "1")
    assert any("rates are not known" in words for words in assumed)
    assert any("8.0 or newer" in words for words in assumed)


def test_a_port_of_unknown_function_is_left_out(tmp_path):
    direct = from_node.topology(Node(open_host(str(build("dgx-os-5-nv-peer-mem", tmp_path)))))
    assert any(net.device and not net.address for net in direct.nets)
    found, _ = completed(direct)
    assert found.nets
    assert all(net.address for net in found.nets)


def test_the_content_of_a_dump_is_kept():
    dump = read(DUMP)
    found, assumed = completed(dump)
    assert [gpu for gpu in found.gpus if gpu.gdr] == [dump.gpus[0]]
    assert [net.nccl for net in found.nets] == [net.nccl for net in dump.nets]
    assert not any("rates" in words for words in assumed)


@pytest.mark.parametrize(
    "name, gdr", [("ubuntu-6.8-h100", True), ("zgx-3285", False), ("rocky-3090-stock", False)]
)
def test_gpus_that_cuda_refuses_do_not_count_as_capable(name, gdr, tmp_path):
    found, _ = completed(from_node.topology(Node(open_host(str(build(name, tmp_path))))))
    assert {gpu.gdr for gpu in found.gpus} == {gdr}


def test_functions_of_one_card_have_one_number(tmp_path):
    found, _ = completed(from_node.topology(Node(open_host(str(build("spark-two-cables", tmp_path))))))
    assert len({net.guid for net in found.nets}) == 1
    assert [net.nccl.dev for net in found.nets] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("name", ["gh200", "gb200-force-pcie", "ubuntu-6.8-h100"])
def test_a_file_with_only_the_tree_is_judged_like_its_node(name, tmp_path):
    """Files of --write-nccl-xml do not show C2C: NCCL detects it by NVML."""
    direct = from_node.topology(Node(open_host(str(build(name, tmp_path)))))
    bare = from_file.read_topology(nccl_xml.written(nccl_writer.system(direct)))
    here, there = (
        {(gpu, address[net]): pair.path for (gpu, net), pair in view(saved, NEWEST, {}).pairs.items()}
        for saved in (SavedTopology(direct), bare)
        for address in ({net.id: net.address for net in saved.topology.nets},)
    )
    assert here == there


def test_the_speed_of_c2c_is_assumed_if_not_known(tmp_path):
    found, assumed = completed(from_node.topology(Node(open_host(str(build("gh200", tmp_path))))))
    assert (found.gpus[0].c2c.mbyte_per_s, found.gpus[0].c2c.count) == (45_000, 10)
    assert any("450 GB/s" in words for words in assumed)
