"""What strangers wrote is shown on a terminal, and never obeyed by it."""

import io
import json
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.streams import SafeStream, visible, visible_json

OBEYED = {chr(number) for number in (*range(9), *range(11, 32), *range(0x7F, 0xA0))} | {
    chr(number) for number in range(0x110000) if unicodedata.bidirectional(chr(number)) in
    ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
} | set("\u061c\u200e\u200f\u2028\u2029")  # fmt: skip


@given(st.text())
def test_no_character_is_left_that_a_terminal_obeys(text):
    assert OBEYED.isdisjoint(visible(text))


@given(st.text().filter(lambda text: OBEYED.isdisjoint(text)))
def test_plain_text_in_any_script_stays_as_it_is(text):
    assert visible(text) == text


def test_an_escape_is_shown_as_an_escape():
    assert visible("a\x1b]0;x\x07b\r\x9b\u202e") == r"a\x1b]0;x\x07b\x0d\x9b\u202e"


@given(st.text(st.characters(exclude_categories=())))
def test_any_encoding_holds_what_is_shown(text):
    shown = visible(text)
    assert shown.encode().decode() == shown
    assert ("\\ud" in shown) or not any("\ud800" <= letter <= "\udfff" for letter in text)


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_loses_nothing_and_obeys_nothing(document):
    text = visible_json(json.dumps(document, ensure_ascii=False))
    assert json.loads(text) == document
    assert OBEYED.isdisjoint(text)


def test_our_own_colours_pass_and_nothing_else_does():
    out = io.StringIO()
    SafeStream(out).styled("\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J")
    assert out.getvalue() == "\x1b[31mred\x1b[0m \\x1b]0;title\\x07 \\x1b[2J"


def test_a_status_line_replaces_itself_and_shows_escapes():
    out = io.StringIO()
    SafeStream(out).status("reading \x1b[31m")
    assert out.getvalue() == "\rreading \\x1b[31m\x1b[K"


def test_what_an_encoding_lacks_is_replaced():
    raw = io.BytesIO()
    stream = SafeStream(io.TextIOWrapper(raw, "ascii"))
    stream.write("naïve \udcff\n")
    stream.flush()
    assert raw.getvalue() == b"na?ve \\udcff\n"


def test_a_full_device_is_a_failure_and_no_exception():
    with Path("/dev/full").open("w") as full:
        stream = SafeStream(full)
        stream.write("x")
        stream.flush()
        assert stream.failure is not None and stream.failure.strerror == "No space left on device"
        stream.give_up()


def test_a_reader_that_left_is_a_failure_and_no_exception():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as left:
        stream = SafeStream(left)
        stream.write("x")
        stream.flush()
        assert isinstance(stream.failure, BrokenPipeError)
        stream.give_up()


@pytest.mark.parametrize("closed", [None, io.StringIO()])
def test_a_closed_stream_takes_text_and_is_a_failure(closed):
    if closed is not None:
        closed.close()
    stream = SafeStream(closed)
    assert stream.write("x") == 1
    stream.flush()
    assert stream.failure is not None
    assert not stream.isatty()
