"""Stored error messages, and outputs that only contain some."""

from __future__ import annotations

import pytest

from gdrkit.evidence import bundle
from gdrkit.evidence.bundle import COMPLAINTS, HEAD_BYTES, complaint, without_complaints

LONG = b"bash: line 1: lspci: command not found\n" * 100
OUTPUT = b"00:00.0 Host bridge: Intel Corporation\n" * 100


@pytest.mark.parametrize("words", COMPLAINTS)
def test_every_known_message_is_one(words):
    line = f"x: {words.upper()} here"
    assert complaint(f"\n  {line}  \n".encode()) == line


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", ""),
        (b"\n \n", ""),
        (b"sh: 1: lspci: not here\n", ""),
        (b"Error: something\nTry 'x --help'\nsudo: must be root", "sudo: must be root"),
        (b"warning: a\n  usage: b\nfatal: permission denied\n", "fatal: permission denied"),
        (b"error without a known word\n", ""),
        (b"permission denied\n00:00.0 Host bridge\n", ""),
        (b"00:00.0 Host bridge\npermission denied\n", ""),
        (b"[    1.0] permission denied\n", ""),
        (b'{"processes": 1, "why": "permission denied"}\n', ""),
        (b"Timed out\n[    1.0] permission denied\n", ""),
        (b"caf\xe9: Timed out", "caf\ufffd: Timed out"),
    ],
)
def test_every_line_must_be_one(text, found):
    assert complaint(text) == complaint(memoryview(text)) == found


def test_a_long_output_is_judged_by_its_beginning_and_its_end():
    line = "bash: line 1: lspci: command not found"
    assert len(LONG) > HEAD_BYTES < len(OUTPUT)
    assert complaint(LONG) == complaint(LONG + b"Try again\n") == line
    assert complaint(LONG[:-1]) == line
    assert complaint(LONG + OUTPUT) == complaint(OUTPUT + LONG) == ""
    assert complaint(LONG + b"00:00.0 Host bridge\n") == ""
    assert complaint(LONG + OUTPUT + LONG) == line  # what lies between is not looked at
    one = b"permission denied " + b"x" * HEAD_BYTES
    assert complaint(one) == ""  # no whole line in its beginning


def test_a_line_that_is_cut_at_the_limit_is_not_judged():
    head = b"permission denied\n"
    whole = head + b"x" * (HEAD_BYTES - len(head))
    assert complaint(whole) == ""
    assert complaint(whole + b"\n" + head * 200) == "permission denied"


def test_an_output_without_its_error_messages():
    text = b"modinfo: ERROR: Module x not found.\nfilename: /a\r\nsh: 1: y: Command not found\n\nb: c"
    assert without_complaints(text) == without_complaints(memoryview(text)) == b"filename: /a\r\n\nb: c"


def test_the_limits():
    assert bundle.HEAD_BYTES == 2048
