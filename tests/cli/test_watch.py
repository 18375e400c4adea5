"""`gdr watch`: lines in a pipe, a screen in a terminal, and an end."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdrkit.agent.streams import SafeStream
from gdrkit.cli import main
from gdrkit.evidence import running
from gdrkit.evidence.errors import TargetError
from gdrkit.facts.commands import RUNNING
from tests.cli.test_streams import GDR
from tests.jobs.running.records import closed, device, held, process, record
from tests.system_programs import has_ended

MADE = json.dumps(record(process(701, name="\x1b[2Jx"), rdma=[device(*held(1, 701, 4 << 20))])).encode()


@pytest.fixture
def node(monkeypatch):
    """A machine that shows one staged process; counts the looks, and those that list every pair."""
    seen: list[bool] = []

    def told(target, command, options=()):
        seen.append("--few-pairs" not in options)
        return MADE

    monkeypatch.setattr(running, "record_of", told)
    return seen


def test_in_a_pipe_a_process_has_a_line_once(node, capsys):
    assert main(["watch", "--count", "2", "--interval", "1"]) == 2
    (line,) = capsys.readouterr().out.splitlines()

    assert re.match(r"\d\d:\d\d:\d\d \+ +701 \?\[2Jx ", line) and line.endswith("host memory")


def test_every_pair_is_listed_at_the_first_look_and_not_at_the_next(node):
    main(["watch", "--count", "3", "--interval", "1"])

    assert node == [True, False, False]


def test_nccl_is_asked_at_the_first_look_only_and_its_answer_stays(monkeypatch, capsys):
    """Each question makes all processes of the job answer."""
    asked: list[bool] = []
    answer = {
        "format": "json",
        "text": json.dumps({"nccl_version": "2.28.9", "communicators": [{"size": 8}]}),
    }

    def told(target, command, options=()):
        asked.append("--ras" in options)
        return json.dumps(record(process(701), ras=[answer] if asked[-1] else [])).encode()

    monkeypatch.setattr(running, "record_of", told)
    main(["watch", "--ras", "--count", "2", "--interval", "1"])
    lines = capsys.readouterr().out.splitlines()

    assert asked == [True, False]
    assert [line[9:] for line in lines if " n " in line] == [
        "n NCCL 2.28.9: 8 ranks on 0 hosts, 0 missing (none of these processes)"
    ]


def test_what_cannot_be_seen_and_what_root_would_add_is_said_once_and_when_it_changes(monkeypatch, capsys):
    """Not when another number of processes cannot be read."""
    denied = {"tcp": {"status": "timed-out", "why": ""}}
    told = [
        record(closed(701), uid=65534, denied_processes=4),
        record(closed(701), uid=65534, denied_processes=1),
        record(closed(701), uid=65534, denied_processes=1, sources=denied),
        record(process(701), tcp_namespaces=[]),
    ]
    looks = iter(json.dumps(one).encode() for one in told)
    monkeypatch.setattr(running, "record_of", lambda *_: next(looks))
    main(["watch", "--count", "4", "--interval", "1"])
    lines = [line[9:] for line in capsys.readouterr().out.splitlines() if line[9:10] == "?"]

    assert lines == [
        "? to find out: as root: sudo gdr ps",
        "? note: 4 processes of other users cannot be read; as root: sudo gdr ps",
        "? note: tcp: timed-out",
        "? no longer: to find out: as root: sudo gdr ps",
        "? no longer: note: tcp: timed-out",
        "? no longer: note: 1 process of other users cannot be read; as root: sudo gdr ps",
    ]


def test_a_bundle_does_not_run(tmp_path, capsys):
    assert main(["watch", str(tmp_path)]) >= 64
    assert "not a running machine" in capsys.readouterr().err


def test_in_a_terminal_the_screen_changes_in_place():
    """The real command on a terminal: the second look erases the first, and the cursor comes back."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*GDR, "watch", "--count", "2", "--interval", "1"], stdout=theirs, stdin=theirs,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": ""},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while select.select([ours], [], [], 60)[0]:
            try:
                shown += os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
    finally:
        os.close(ours)
        child.wait(60)

    assert child.returncode in (0, 2, 3)
    assert shown.count(b"every 1 s, q ends") >= 2
    assert b"\x1b[1A\x1b[2K" in shown and shown.rstrip().endswith(b"\x1b[?25h")


def on_a_terminal(press: bytes = b"", number: int | None = None) -> tuple[int, bytes, list, list]:
    """Run the real command on a terminal until its first screen, press keys or send a signal: the exit code,
    what it shows, and the terminal's settings before and after."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    child = subprocess.Popen(
        [*GDR, "watch", "--interval", "3600"], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": ""}, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    shown = b""
    try:
        while b"q ends" not in shown and select.select([ours], [], [], 60)[0]:
            shown += os.read(ours, 1 << 16)
        os.write(ours, press)
        if number is not None:
            os.kill(child.pid, number)
        code = child.wait(60)
        while select.select([ours], [], [], 0.2)[0]:
            shown += os.read(ours, 1 << 16)
        return code, shown, before, termios.tcgetattr(theirs)
    finally:
        child.kill()
        child.wait(60)
        os.close(theirs)
        os.close(ours)


def test_q_ends_it_and_keys_are_not_echoed():
    """The next look would be in an hour."""
    code, shown, before, after = on_a_terminal(b"xyzzy\x1b[Aq")

    assert code in (0, 2, 3) and after == before
    assert b"xyzzy" not in shown and shown.rstrip().endswith(b"\x1b[?25h")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_after_a_signal_the_terminal_is_as_it_was(number):
    code, shown, before, after = on_a_terminal(number=number)

    assert code not in (0, 2, 3) and after == before
    assert b"\x1b[?25h" in shown


class Kept:
    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[?25l\x1b[2K\x1b[1A\r\x1b[1mx\x1b[0m", "\x1b[?25l\x1b[2K\x1b[1A\r\x1b[1mx\x1b[0m"),
        ("\x1b]0;x\x07", "\\x1b]0;x\\x07"),
        ("\x1b[6n", "\\x1b[6n"),
        ("\x1bc", "\\x1bc"),
    ],
)
def test_a_screen_may_move_the_cursor_and_nothing_else(text, shown):
    """Not: titles, answers of the terminal, resets."""
    kept = Kept()
    SafeStream(kept).screen(text)

    assert kept.text == shown


def test_a_trace_that_cannot_be_started_ends_in_one_line(monkeypatch, tmp_path):
    (tmp_path / "python").write_text("")
    monkeypatch.setattr(running, "script_argv", lambda *_: (str(tmp_path / "python"),))
    with pytest.raises(TargetError, match="permission denied"):
        running.Trace(RUNNING)


WATCH = """
import sys
from gdrkit.cli import main
from gdrkit.evidence import running
FOLLOWS = ("import sys; sys.path.insert(0, %r); from gdrkit.agent.running import trace; "
           "trace._rings = trace.remove_stale = list; "
           "from gdrkit.agent.probe.trace_probe import main; sys.exit(main())" % sys.argv[1])
asked = running.script_argv
def argv(command, script):
    return (sys.executable, "-I", "-c", FOLLOWS) if script == "trace_probe" else asked(command, script)
running.script_argv = argv
sys.exit(main(["watch", "--trace", "--interval", "1"]))
"""
"""gdr watch on a machine whose kernel allows probes, but has none of the functions."""


def descendants(pid: int) -> dict[int, int]:
    """The processes below one, with their parents: proc_pid_stat(5)."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue

    def below(parent: int) -> Iterator[tuple[int, int]]:
        for child in (child for child, its in parents.items() if its == parent):
            yield child, parent
            yield from below(child)

    return dict(below(pid))


def test_nothing_that_it_started_outlives_it_if_it_is_killed():
    """Killed in the middle of a look, while a child follows registrations. What the kernel keeps of a probe
    is tested in guests: tests/jobs/running/test_registrations.py."""
    source = str(Path(running.__file__).parents[2])
    child = subprocess.Popen([sys.executable, "-c", WATCH, source], stdout=subprocess.DEVNULL)
    found: dict[int, int] = {}
    while child.poll() is None:
        found = descendants(child.pid)
        if len(found) > 4 and [*found.values()].count(child.pid) == 2:
            break
    child.kill()
    child.wait()
    for _ in range(600):
        if all(map(has_ended, found)):
            break
        threading.Event().wait(0.1)

    assert len(found) > 4 and [pid for pid in found if not has_ended(pid)] == []
