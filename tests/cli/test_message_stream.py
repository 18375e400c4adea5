"""Messages on a terminal are as wide as it is; in a pipe, which programs read, a line stays one line."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

from gdrkit.cli.message_stream import MessageStream
from tests.cli.forked import shown_on
from tests.cli.test_width import GDR, PLAIN

WRONG = ["doctor", "--consumer", "nothing-that-gdr-knows"]
FOLDER = "/no/such/folder/" + "a-folder-with-a-long-name/" * 4


def on_terminal(columns: int, *words: str, **environment: str) -> str:
    """What a terminal of that width shows of standard error."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [*GDR, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=PLAIN | environment,
    )
    os.close(theirs)
    shown = shown_on(ours)
    process.communicate(timeout=60)
    return shown


def piped(*words: str) -> str:
    return subprocess.run([*GDR, *words], capture_output=True, text=True, env=PLAIN, timeout=60).stderr


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_message_fits_the_terminal_and_loses_no_word(columns):
    shown, whole = on_terminal(columns, *WRONG), piped(*WRONG)
    assert shown.split() == whole.split()
    assert max(map(len, shown.splitlines())) <= columns < max(map(len, whole.splitlines()))
    first, second, *_ = shown.splitlines()
    assert first.startswith("gdr doctor: ") and second.startswith("  ")


def test_a_note_does_not_follow_the_progress_in_its_line(tmp_path):
    for name in ("a.tar.gz", "b.tar.gz"):
        (tmp_path / name).write_bytes(b"no bundle")
    shown = on_terminal(200, "expect", str(tmp_path))
    shown_lines = re.split(r"[\r\n]", shown.replace("\x1b[K", ""))
    assert [line.partition(":")[0] for line in shown_lines if "left out" in line] == ["note", "note"]


def test_in_a_pipe_a_message_is_one_line_and_its_hint_another():
    message, hint = piped(*WRONG).splitlines()
    assert len(message) > 120 and hint == "  see gdr doctor --help"


def test_a_short_message_stays_as_it_is_and_a_path_is_never_broken():
    assert on_terminal(80, "doctr") == piped("doctr")
    assert FOLDER.rstrip("/") in on_terminal(60, "doctor", FOLDER).replace("'", "")


def test_the_variable_is_obeyed_and_a_terminal_that_claims_one_column_is_not_believed():
    assert 60 < max(map(len, on_terminal(200, *WRONG, COLUMNS="72").splitlines())) <= 72
    assert max(map(len, on_terminal(200, *WRONG, COLUMNS="1").splitlines())) >= 20


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("length", [10, 500])
def test_progress_stays_on_its_row(length, monkeypatch):
    """A carriage return leads to the start of a row, not of a line that wrapped."""
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    MessageStream(terminal).status("x" * length)
    assert terminal.getvalue().count("x") == min(length, 39)


def test_a_traceback_stays_as_python_writes_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    terminal, text = Terminal(), f'Traceback (most recent call last):\n  File "{FOLDER}", line 1\n'
    MessageStream(terminal).write(text)
    assert terminal.getvalue() == text
