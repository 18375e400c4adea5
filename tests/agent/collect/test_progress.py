"""What is shown while collecting: on a terminal one line, elsewhere a few."""

from __future__ import annotations

import io

import pytest

from gdrkit.agent.collect import progress
from gdrkit.agent.collect.progress import CollectorProgress
from gdrkit.agent.streams import SafeStream


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, **options: bool) -> str:
    found = CollectorProgress(stream, **options)
    found.stage("files")
    found.step("etc/a")
    found.step("etc/b")
    found.stage("commands")
    found.line("a line")
    found.problem("a problem")
    return stream.getvalue()


def test_a_file_gets_the_stages():
    text = "collecting files\ncollecting commands\na line\na problem\n"
    assert shown(io.StringIO()) == text
    stream = io.StringIO()
    assert shown(stream, verbose=True) == text.replace("files\n", "files\n  etc/a\n  etc/b\n")
    assert shown(io.StringIO(), quiet=True) == shown(Terminal(), quiet=True) == "a problem\n"
    assert shown(Terminal(), verbose=True) == shown(io.StringIO(), verbose=True)


def test_a_terminal_gets_one_line_that_is_overwritten(monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN", 0)
    monkeypatch.setenv("COLUMNS", "17")
    steps = [f"\rcollecting {name}\x1b[K" for name in ("files", "etc/a", "etc/b", "comma")]
    assert shown(Terminal()) == "".join(steps) + "\r\x1b[Ka line\na problem\n"


def test_a_terminal_is_not_flooded(monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN", 1000)
    out = Terminal()
    found = CollectorProgress(out)
    for text in ("one", "two"):
        found.stage(text)
        found.step("hidden")
    assert out.getvalue() == "\rcollecting one\x1b[K\rcollecting two\x1b[K"


@pytest.mark.parametrize("wrap", [SafeStream, lambda stream: stream])
def test_names_of_strangers_are_shown_as_escapes(wrap):
    out = io.StringIO()
    CollectorProgress(wrap(out)).line("\x1b[31m")
    assert out.getvalue() == "\\x1b[31m\n"
