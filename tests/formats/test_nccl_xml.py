"""NCCL's topology files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats import nccl_xml
from gdrkit.formats.errors import FormatError

WORDS = [
    '<system version="1">',
    "</system>",
    "<cpu>",
    "</cpu>",
    '<pci busid="0000:01:00.0"/>',
    "<xgmi/>",
    "t",
]


def test_the_elements_of_a_dump_are_read_in_order():
    root = nccl_xml.parse(b'<system version="1"><cpu numaid="0"><nic/><pci/><nic/></cpu></system>')
    assert [node.name for node in root.walk()] == ["system", "cpu", "nic", "pci", "nic"]


def test_a_graph_file_is_read_as_well():
    assert nccl_xml.parse(b'<graphs version="1"><graph id="0"/></graphs>').name == "graphs"


@pytest.mark.parametrize(
    "content",
    [b'<system version="2"><cpu/></system>', b'<system version="1"><gpu><xgmi/></gpu></system>',
     b'<system version="1"><gpu gcn="910"/></system>'],
)  # fmt: skip
def test_topology_files_of_rccl_are_refused_by_name(content):
    with pytest.raises(FormatError, match="RCCL"):
        nccl_xml.parse(content)


@pytest.mark.parametrize("content", [b"<topology/>", b"<system/>", b'<system version="3"/>', b""])
def test_files_that_nccl_does_not_read_are_refused(content):
    with pytest.raises(FormatError):
        nccl_xml.parse(content)


def test_text_between_elements_is_refused_as_nccl_refuses_it():
    with pytest.raises(FormatError, match="text inside"):
        nccl_xml.parse(b'<system version="1">x<cpu/></system>')


def test_values_that_need_an_entity_are_not_written():
    root = nccl_xml.XmlNode("system", {"version": "1", "name": "a&b"})
    with pytest.raises(FormatError, match="does not read entities"):
        nccl_xml.written(root)


@given(st.binary() | st.lists(st.sampled_from(WORDS)).map(lambda words: "".join(words).encode()))
def test_any_bytes_give_a_tree_that_is_written_and_read_again_or_a_format_error(content):
    try:
        root = nccl_xml.parse(content)
    except FormatError:
        return
    assert nccl_xml.parse(nccl_xml.written(root)) == root
