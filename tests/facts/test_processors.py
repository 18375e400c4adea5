"""NUMA nodes and processors."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.processors import CpuModel, NumaNode, mask, numa_nodes, parse_list, processor
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.memory_host import MemoryHost

NODES = "sys/devices/system/node"
XEON = (
    "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon\n\n"
    "processor\t: 1\n"
)
GRACE = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\n"


def test_nodes_without_processors_are_left_out():
    files = {f"{NODES}/online": "0-1\n", f"{NODES}/node0/cpulist": "0-1,4\n", f"{NODES}/node1/cpulist": "\n"}
    assert numa_nodes(Node(MemoryHost(files))) == (NumaNode(0, (0, 1, 4)),)


def test_nodes_that_were_not_collected_are_unknown():
    with pytest.raises(EvidenceMissing):
        numa_nodes(Node(MemoryHost()))


def test_the_first_processor_shows_the_model():
    assert processor(Node(MemoryHost({"proc/cpuinfo": XEON}))) == CpuModel("GenuineIntel", 6, 143, "Xeon")


def test_arm_has_an_implementer_and_no_family():
    assert processor(Node(MemoryHost({"proc/cpuinfo": GRACE}))) == CpuModel("ARM")


def test_lscpu_answers_where_cpuinfo_was_not_copied():
    host = MemoryHost(commands={("lscpu",): "Vendor ID: AuthenticAMD\nCPU family: 25\nModel: 17\n"})
    assert processor(Node(host)) == CpuModel("AuthenticAMD", 25, 17)


def test_a_mask_has_32_processors_in_a_word():
    assert mask((0, 1, 35)) == "00000008,00000003"
    assert mask(()) == "00000000"


@pytest.mark.parametrize("text", ["a", "3-1", "0-", "-1", "1,,2", "0-99999999", "\u0663"])
def test_other_text_than_a_list_is_refused(text):
    with pytest.raises(FormatError):
        parse_list(text)


@given(st.text("0123456789-, \n", max_size=12))
def test_any_text_is_a_list_or_a_format_error(text):
    with contextlib.suppress(FormatError):
        assert all(number >= 0 for number in parse_list(text))
