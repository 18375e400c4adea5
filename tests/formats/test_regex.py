"""An expression is compiled at its first use, and is then what `re.compile` makes of it."""

import re

import pytest

from gdrkit.formats.regex import regex


def test_it_matches_as_the_compiled_expression_does():
    words = regex(r"(?P<key>\w+)=(?P<value>\w+)")
    assert words.fullmatch("a=b")["value"] == "b"
    assert words.search("-- a=b")["key"] == "a"
    assert words.match("-a=b") is None
    assert [found["key"] for found in words.finditer("a=1 b=2")] == ["a", "b"]
    assert words.sub(r"\g<value>=\g<key>", "a=b") == "b=a"
    assert words.groupindex == {"key": 1, "value": 2}
    assert words.pattern == r"(?P<key>\w+)=(?P<value>\w+)"


def test_bytes_and_flags_are_kept():
    assert regex(rb"^b$", re.MULTILINE | re.IGNORECASE).findall(b"a\nB\n") == [b"B"]


def test_what_is_no_expression_is_refused_at_its_first_use():
    wrong = regex("(")
    with pytest.raises(re.error, match="missing \\)"):
        wrong.search("")
