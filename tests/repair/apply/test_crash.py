"""After kill -9 at any line that changes a machine, the run can be resumed and undone.

A child process is killed before the n-th line of repair/apply that writes: to a file, a folder, the journal.
GDRKIT_CRASH_LINES=all counts every line. GDRKIT_CRASH_EVERY=1 tries each n; without it, a sample is tried,
which the date chooses.
"""

from __future__ import annotations

import datetime
import functools
import linecache
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import gdrkit
from gdrkit.cli.fix_apply import take_snapshot
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.reverter import Reverter
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.apply.runner import Runner, begin_run, unfinished_run
from gdrkit.repair.platforms.choices import ProcedureChoices
from tests.repair.apply.scratch import STEPS, machine, needs_depmod, snapshot

pytestmark = needs_depmod
OWN = str(Path(gdrkit.__file__).parent / "repair" / "apply")
KILLED = -signal.SIGKILL
EVERY = int(os.environ.get("GDRKIT_CRASH_EVERY", "127"))
DAY = datetime.date.today().toordinal()
ALL = os.environ.get("GDRKIT_CRASH_LINES", "") == "all"
_WRITES = re.compile(
    r"os\.(open|write|rename|unlink|mkdir|rmdir|fsync|ftruncate|symlink|f?chown|fchmod|setxattr|utime)\("
    r"|journal\.append\(|rmtree\(|copyfile\(|\.write\(|\.flush\(|subprocess\.run\("
)


@functools.cache
def writing_lines(path: str) -> frozenset[int]:
    """Numbers of the lines of a file that change something on disk."""
    return frozenset(n for n, line in enumerate(linecache.getlines(path), 1) if _WRITES.search(line))


def silent(line: str) -> None:
    pass


def start(root: Path, *, own_key: bool) -> None:
    choices = (
        ProcedureChoices()
        if own_key
        else ProcedureChoices(key="/etc/keys/own.key", certificate="/etc/keys/own.der")
    )
    begin_run(RootFS(str(root)), STEPS, choices, "nccl", "0", take_snapshot).close()


def finish(root: Path) -> None:
    journal = unfinished_run(RootFS(str(root)))
    assert journal is not None
    assert Runner(journal, Passwords(), silent, lambda *_: True, take_snapshot).run().status == "finished"
    journal.close()


def undo(root: Path) -> None:
    from gdrkit.repair.apply.runner import newest_not_undone

    journal = newest_not_undone(RootFS(str(root)))
    if journal is None:
        return
    assert Reverter(journal, Passwords(), silent).revert() == ()
    journal.close()


class _Counter:
    """Counts the lines of the package that run, and kills this process before the n-th."""

    def __init__(self, last: int) -> None:
        self.lines, self.last = 0, last

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        return self.line if frame.f_code.co_filename.startswith(OWN) else None

    def line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and (ALL or frame.f_lineno in writing_lines(frame.f_code.co_filename)):
            self.lines += 1
            if self.lines == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.line


def in_child(work: Callable[[], None], last: int = 0) -> tuple[int, int]:
    """Exit code (negative: the signal), and how many lines of the package ran."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            counter = _Counter(last)
            sys.settrace(counter)
            work()
            sys.settrace(None)
            os.write(write, str(counter.lines).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read, "rb") as file:
        counted = file.read()
    return os.waitstatus_to_exitcode(status), int(counted or 0)


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A folder in memory, where fsync(2) is fast."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def broken(memory: Path) -> Path:
    return machine(memory / "broken")


@pytest.fixture(autouse=True)
def state(memory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of journals, which belong to the path of a tree."""
    folder = Path(tempfile.mkdtemp(dir=memory))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "gdrkit"


@pytest.fixture
def scratch(memory: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=memory))


class _Copies:
    """Makes copies of a broken machine."""

    def __init__(self, broken: Path, folder: Path, state: Path) -> None:
        self.broken, self.folder, self.state, self.number = broken, folder, state, 0

    def copy(self) -> Path:
        self.number += 1
        target = self.folder / str(self.number % 2)
        shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(self.state, ignore_errors=True)
        return Path(shutil.copytree(self.broken, target, symlinks=True))


def sampled(lines: int) -> list[int]:
    return sorted({1, lines, *range(1 + DAY * 8 % EVERY, lines + 1, EVERY)})


@pytest.mark.slow
@pytest.mark.parametrize("own_key", [False, True], ids=["own key given", "key made"])
def test_a_run_killed_at_any_write_can_be_undone_or_resumed(
    broken: Path, scratch: Path, state: Path, own_key: bool
) -> None:
    lab = _Copies(broken, scratch, state)
    before = snapshot(broken)
    whole = lab.copy()
    start(whole, own_key=own_key)
    code, lines = in_child(lambda: finish(whole))
    assert code == 0 and lines > 200
    wanted = snapshot(whole)
    assert wanted != before
    print(f"{lines} lines, {len(sampled(lines))} of them tried")
    for n in sampled(lines):
        root = lab.copy()
        start(root, own_key=own_key)
        assert in_child(functools.partial(finish, root), n)[0] == KILLED
        if n % 2 or own_key:  # a new run makes a new key, and so other signatures
            undo(root)
        else:
            if unfinished_run(RootFS(str(root))) is not None:
                finish(root)
            assert snapshot(root) == wanted, n
            undo(root)
        assert snapshot(root) == before, n


@pytest.mark.slow
def test_an_undo_killed_at_any_write_is_finished_by_the_next(
    broken: Path, scratch: Path, state: Path
) -> None:
    lab = _Copies(broken, scratch, state)
    before = snapshot(broken)
    whole = lab.copy()
    start(whole, own_key=False)
    finish(whole)
    changed = snapshot(whole)
    kept, kept_state = scratch / "changed", scratch / "state"
    shutil.copytree(whole, kept, symlinks=True)
    shutil.copytree(state, kept_state)
    assert snapshot(kept) == changed
    code, lines = in_child(lambda: undo(whole))
    assert code == 0 and snapshot(whole) == before
    print(f"{lines} lines, {len(sampled(lines))} of them tried")
    for n in sampled(lines):
        for folder, source in ((whole, kept), (state, kept_state)):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder, symlinks=True)
        assert in_child(functools.partial(undo, whole), n)[0] == KILLED
        undo(whole)
        assert snapshot(whole) == before, n


def test_a_truncated_last_line_of_a_journal_is_ignored(broken: Path, scratch: Path, state: Path) -> None:
    from gdrkit.repair.apply.journal import parse, whole_bytes

    root = _Copies(broken, scratch, state).copy()
    start(root, own_key=False)
    finish(root)
    (path,) = state.glob("fix/*/*/journal.jsonl")
    content = path.read_bytes()
    records = parse(content)
    begun = content.rfind(b"\n", 0, len(content) - 1) + 1
    for end in range(begun, len(content)):
        assert parse(content[:end]) == records[:-1]
        assert whole_bytes(content[:end]) == begun
    assert whole_bytes(content) == len(content)
    assert whole_bytes(content[:begun] + b"\0" * 40 + b"\n") == begun  # blocks that never reached the disk
