"""Ctrl-C while probes or commands hang: the command ends at once, and nothing that it started goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.seed import SEED

HANGING = """
import sys
from gdrkit.agent.collect import collector
from gdrkit.evidence import live
hang = "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
hang += "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)', sys.argv[1]])"
live._probe_argv = lambda command: (sys.executable, "-I", "-c", hang, "MARK")
collector.program = lambda script: hang.replace("sys.argv[1]", "'MARK'")
from gdrkit.cli import main
sys.exit(main())
"""
ENDS_WITHIN_S = 30
"""Probes that are not ended are given up after 60 s."""


def processes(mark: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (
                mark in (process / "cmdline").read_text(errors="replace")
                and int(process.name) != os.getpid()
            ):
                found.append(process.name)
        except OSError:
            continue
    return found


COMMANDS = ("doctor --probe", "probe", "probe cuda", "collect -o -")
SIGNALS = ((signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 1), (signal.SIGHUP, 1))
DRAWN = random.Random(SEED).sample(SIGNALS, len(SIGNALS))
"""Each command gets one of them each day, and each of them is sent."""


@pytest.mark.parametrize(
    ("command", "number", "times"), [(c, *s) for c, s in zip(COMMANDS, DRAWN, strict=True)]
)
def test_an_interrupt_ends_hanging_probes(command, number, times, tmp_path):
    mark = f"interrupt-{os.getpid()}-{tmp_path.name}"
    with (tmp_path / "out").open("wb") as out:
        run = subprocess.Popen(
            [sys.executable, "-c", HANGING.replace("MARK", mark), *command.split()],
            stdout=out, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        wanted = 3 if command == "probe cuda" else 5  # a probe and its child: two of each, and gdr itself
        for _ in range(1200):
            if len(processes(mark)) >= wanted:
                break
            assert run.poll() is None
            time.sleep(0.05)
        time.sleep(0.1)
        for _ in range(times):
            run.send_signal(number)
            time.sleep(0.02)
        _, said = run.communicate(timeout=ENDS_WITHIN_S)
    assert run.returncode == 128 + number, said
    assert b"interrupted" in said and b"Traceback" not in said
    end = time.monotonic() + 5  # of processes that were killed, until their parent has waited for them
    while processes(mark) and time.monotonic() < end:
        time.sleep(0.02)
    assert not processes(mark)


INTERRUPTED = """
import sys, time, weakref, _signal
from gdrkit.cli import codes, deadline, main
class Thing: pass
def in_callback():
    thing = Thing()
    seen = weakref.ref(thing, lambda _: _signal.raise_signal(NUMBER))
    del thing
    time.sleep(600)
def in_clean_up():
    try: _signal.raise_signal(NUMBER)
    finally: Thing().save_nargs
def late():
    with deadline.deadline(3600):
        try: in_callback()
        except deadline.DeadlineReached: return 3
codes.main = lambda arguments: WHERE()
sys.argv = ["gdr", "codes"]
sys.exit(main())
"""


@pytest.mark.parametrize("where", ["in_callback", "in_clean_up"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_is_neither_lost_nor_taken_for_a_fault(where, number):
    """In a callback of a weak reference, such as those of Python's imports, and then it ends a system call
    that waits; and where something fails as it cleans up, as argparse does."""
    program = INTERRUPTED.replace("NUMBER", str(int(number))).replace("WHERE", where)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (128 + number, b"gdr codes: interrupted\n")


def test_nor_is_a_deadline():
    program = INTERRUPTED.replace("NUMBER", str(int(signal.SIGALRM))).replace("WHERE", "late")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (3, b"")


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path):
    """nohup(1) starts a program like that."""
    shown = "import signal; from gdrkit.cli.process import begin; begin(); "
    shown += "print(repr(signal.getsignal(signal.SIGHUP)))"
    ran = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    assert "SIG_IGN" in ran.stdout


IN_MSGSPEC = """
import sys, _signal
from gdrkit.cli import codes, main
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "datetime":
            sys.meta_path.remove(self)
            _signal.raise_signal(NUMBER)
finder = Finder()
sys.meta_path.insert(0, finder)
codes.main = lambda arguments: finder in sys.meta_path
sys.argv = ["gdr", "codes"]
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nor_does_it_get_lost_in_the_import_of_msgspec(number):
    """Which takes it for a missing module, and makes the process die by a bad address at the next JSON."""
    program = IN_MSGSPEC.replace("NUMBER", str(int(number)))
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (128 + number, b"gdr codes: interrupted\n")
