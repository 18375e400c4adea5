"""The layout of libibverbs' structures is what a C compiler says of the header here."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from gdrkit.native.verbs_abi import NUMBERS, STRUCTURES

TOOL = Path(__file__).parents[2] / "tools" / "verbs_abi.py"
HEADER = Path("/usr/include/infiniband/verbs.h")


@pytest.mark.skipif(
    not HEADER.exists() or not shutil.which("cc"),
    reason="needs a C compiler and the header: sudo apt-get install -y gcc libc6-dev libibverbs-dev",
)
def test_the_module_is_what_the_compiler_says():
    spec = importlib.util.spec_from_file_location("verbs_abi_tool", TOOL)
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    numbers, structures = tool.layout(HEADER.parent.parent)
    assert numbers == NUMBERS
    assert {name: row[1] for name, row in structures.items()} == {
        name: row[1] for name, row in STRUCTURES.items()
    }


def test_every_field_lies_within_its_structure():
    for size, fields in STRUCTURES.values():
        for offset, length in fields.values():
            assert offset >= 0 and offset + length <= size
