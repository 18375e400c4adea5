"""The layout of libibverbs' structures is that of a C compiler with the installed header."""

import ctypes
import importlib.util
from pathlib import Path

import pytest

from gdrkit.agent.native.verbs_abi import NUMBERS, STRUCTURES
from tests.system_programs import needs

TOOL = Path(__file__).parents[3] / "tools" / "verbs_abi.py"
HEADER = Path("/usr/include/infiniband/verbs.h")


@needs("cc")
@pytest.mark.skipif(
    not HEADER.exists(), reason="no header of libibverbs here: sudo apt install libibverbs-dev"
)
def test_the_module_equals_the_compilers_output():
    spec = importlib.util.spec_from_file_location("verbs_abi_tool", TOOL)
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    numbers, structures = tool.layout(HEADER.parent.parent)
    assert numbers == NUMBERS
    assert {name: row[1] for name, row in structures.items()} == {
        name: row[1] for name, row in STRUCTURES.items()
    }


def test_every_field_is_within_its_structure():
    for size, fields in STRUCTURES.values():
        for offset, length in fields.values():
            assert offset >= 0 and offset + length <= size


def test_a_writer_of_one_field_writes_only_that_field():
    from gdrkit.agent.native.verbs import VerbsStruct

    by_name, by_writer = VerbsStruct("ibv_send_wr"), VerbsStruct("ibv_send_wr")
    for field, value in (
        ("wr_id", 1 << 63),
        ("opcode", 5),
        ("wr.rdma.remote_addr", 77),
        ("wr.rdma.rkey", 9),
    ):
        by_name[field] = value
        by_writer.writer(field)(value)
        assert by_writer[field] == value
    size = 128
    assert ctypes.string_at(by_name.address, size) == ctypes.string_at(by_writer.address, size)
