"""How the kernel parses a module's arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.facts import dynamic_debug
from gdrkit.facts.module_arguments import Argument, reading, refusal, split_arguments
from tests.kernel_tree import KernelTree
from tests.module_builder import RELEASE
from tests.work import within

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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("number = 5", [("number", None), ("=", None), ("5", None)]),
        ("=5", [("=5", None)]),
        ("=5=6", [("=5", "6")]),
        ('"number=5"', [("number", "5")]),
        ('"number=5 6" a', [("number", "5 6"), ("a", None)]),
        ('number="5', [("number", "5")]),
        ('""', [("", None)]),
        ('words=a"b c"d', [("words", 'a"b c"d')]),
        ("a=1 -- b=2", [("a", "1")]),
        ("a=1 --=2 b", [("a", "1"), ("--", "2"), ("b", None)]),
    ],
)
def test_words_are_split_as_next_arg_of_the_kernel_does(
    text: str, expected: list[tuple[str, str | None]]
) -> None:
    assert [(word.name, word.value) for word in split_arguments(text)] == expected


def taker(config: str = "CONFIG_DYNAMIC_DEBUG=y\n") -> KernelTree:
    tree = KernelTree().put(f"boot/config-{RELEASE}", "#\n" + config)
    return tree.module("taker", parameters={"number": "int"})


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("nvidia.X=1", "nvidia"), ("nvidia.a.dyndbg=1", "nvidia"), (".x=1", ""), ("nosuch=1", "nosuch"),
        ("async_probe.x=1", "async_probe"), ("async-probe=1", "async-probe"), ("dyndbg.x=1", "dyndbg"),
    ],
)  # fmt: skip
def test_dynamic_debug_cuts_the_name_of_an_unknown_parameter_at_its_dot(text: str, unknown: str) -> None:
    assert [c.argument.name for c in reading(taker().node(), "taker", text).complaints] == [unknown]
    without = reading(taker("CONFIG_MODULES=y\n").node(), "taker", text)
    assert [c.argument.name for c in without.complaints] == [text.partition("=")[0]]


@pytest.mark.parametrize("text", ["dyndbg", "dyndbg=+p", "nvidia.dyndbg=+p", "async_probe", "async_probe=x"])
def test_every_module_takes_dyndbg_and_async_probe(text: str) -> None:
    assert reading(taker().node(), "taker", text).complaints == ()


def test_what_follows_two_dashes_is_not_read_and_named() -> None:
    found = reading(taker().node(), "taker", "number=5 --  number=five and  more")
    assert (found.bad, found.behind_dashes) == ((), "number=five and  more")
    assert reading(taker().node(), "taker", "--").behind_dashes == ""
    assert reading(taker().node(), "taker", "number=five -- x").behind_dashes is None
    assert reading(taker().node(), "taker", "number=5").behind_dashes is None


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("+p", ()), ("", ()), ("file x.c +p; module y =_", ()), ("# no", ()),
        ("nonsense", ("dyndbg: bad flag-op n, at start of nonsense", "dyndbg: flags parse failed")),
        ("+q", ("dyndbg: unknown flag 'q'", "dyndbg: flags parse failed")),
        ("file +p", None), ("line 1-x +p", None), ("func \"a b\" +p", None), ("+s", None),
    ],
)  # fmt: skip
def test_what_dynamic_debug_says_of_a_query(query: str, lines: tuple[str, ...] | None) -> None:
    assert dynamic_debug.answer(query) == lines


def test_a_query_that_is_longer_than_a_command_line_is_unknown() -> None:
    longest = "+p;" * (dynamic_debug.QUERY_CHARACTERS // 3)
    assert dynamic_debug.answer(longest) == ()
    assert dynamic_debug.answer(longest + "+p;") is None


@given(st.text())
def test_any_text_is_a_query_or_unknown(query: str) -> None:
    dynamic_debug.answer(query)


@given(st.text())
def test_any_text_splits_into_arguments(text: str) -> None:
    for argument in split_arguments(text):
        for kind in ("int", "ulong", "bool", "charp", "array of byte", "odd"):
            refusal(kind, argument.value)


def test_a_string_of_many_words_takes_as_long_as_it_is():
    """The rest was copied at each word: 2 MiB took a minute."""
    with within(25):
        assert len(split_arguments("# " * (1 << 20))) == 1 << 20
