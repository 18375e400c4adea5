"""How the kernel parses a module's arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.facts.module_arguments import Argument, reading, refusal, split_arguments
from tests.kernel_tree import KernelTree

EINVAL, ENOSPC, ERANGE = 22, 28, 34


@pytest.mark.parametrize(
    ("kind", "value", "errno"),
    [
        ("int", "5", 0),
        ("int", "-5", 0),
        ("int", "0x1f", 0),
        ("int", "017", 0),
        ("int", "09", EINVAL),
        ("int", "+7\n", 0),
        ("int", "", EINVAL),
        ("int", "x", EINVAL),
        ("int", "1 2", EINVAL),
        ("int", None, EINVAL),
        ("int", "2147483647", 0),
        ("int", "2147483648", ERANGE),
        ("int", "-2147483648", 0),
        ("uint", "-1", EINVAL),
        ("uint", "4294967296", ERANGE),
        ("byte", "256", ERANGE),
        ("hexint", "ff", 0),
        ("bool", None, 0),
        ("bool", "Y", 0),
        ("bool", "off", 0),
        ("bool", "maybe", EINVAL),
        ("bint", "1", 0),
        ("charp", None, EINVAL),
        ("charp", "", 0),
        ("charp", "x" * 1025, ENOSPC),
        ("array of int", "1,2,x", EINVAL),
        ("array of int", "1,2", None),
        ("dma_mask", "anything", None),
    ],
)
def test_each_type_accepts_what_the_kernel_accepts(kind: str, value: str | None, errno: int | None) -> None:
    assert refusal(kind, value) == errno


def test_quotes_keep_spaces() -> None:
    assert split_arguments('a=1 b="two words" "c=three words" d') == (
        Argument("a", "1"),
        Argument("b", "two words"),
        Argument("c", "three words"),
        Argument("d", None),
    )


def test_arguments_after_an_invalid_one_are_parsed_too() -> None:
    tree = KernelTree().module("taker", parameters={"number": "int", "with_dash": "int"})
    found = reading(tree.node(), "taker", "number=x with-dash=1 number=4 nosuch=1 async_probe")
    assert [(c.argument.name, c.errno) for c in found.complaints] == [("number", EINVAL), ("nosuch", 0)]
    assert found.bad[-1].argument.value == "x"


@given(st.text())
def test_any_text_splits_into_arguments(text: str) -> None:
    for argument in split_arguments(text):
        for kind in ("int", "ulong", "bool", "charp", "array of byte", "odd"):
            refusal(kind, argument.value)
