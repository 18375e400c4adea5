"""Counts the logs of a job, in two processes if that is faster."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.agent.pipes import BLOCK_BYTES, ready
from gdrkit.jobs import logs as job_logs
from gdrkit.jobs.job import LogPosition
from gdrkit.jobs.line_counts import Tally

if TYPE_CHECKING:
    from typing import Any

WORTH_TWO_BYTES = 48 << 20
"""From this size on a second process is started; below, one finishes within half a second."""
TOKEN_BYTES = 4
MOST_TOKENS = 8_000
"""The most sections that are distributed through a pipe, which holds 64 KiB: pipe(7). More are counted by
one process."""
STALLED_S = 30.0
"""How long the child may count nothing: a block of 512 KiB takes 10 ms."""
_COUNTED = b"\0"
"""What the child writes for each block that it has counted; a pickle begins with another byte."""


class CountedLogs(Struct):
    """The counts of files, and a note on each faulty one."""

    tally: Tally
    files: list[str]
    sections: list[job_logs.LogSection]
    notes: list[str]
    bases: list[int] = []

    def position(self, number: int) -> LogPosition:
        """The line of a file at a position of the tally."""
        if not self.bases:
            ends: dict[int, int] = {}
            for index, part in enumerate(self.sections):
                self.bases.append(ends.get(part.file, 0))
                ends[part.file] = self.bases[-1] + self.tally.lines.get(index, 0)
        section = number >> 40
        path = self.files[self.sections[section].file]
        return LogPosition(
            "stdin" if path == job_logs.STDIN else path, self.bases[section] + number % (1 << 40)
        )


def count(files: list[str], progress: Callable[[int, int], None] = lambda done, size: None) -> CountedLogs:
    """The counts of all files. `progress` gets the bytes done and the total, 0 if that is not known."""
    sections = job_logs.sections(files)
    size = sum(_size(path) for path in files)
    alone = size < WORTH_TWO_BYTES or len(sections) < 2 or len(os.sched_getaffinity(0)) < 2
    if alone or len(sections) > MOST_TOKENS:
        tally, notes = _work(files, sections, iter(range(len(sections))), lambda n: progress(n, size))
    else:
        tally, notes = _with_another(files, sections, lambda n: progress(2 * n, size))
    return CountedLogs(tally, files, sections, notes)


def _size(path: str) -> int:
    try:
        return 0 if path == job_logs.STDIN else os.path.getsize(path)
    except OSError:
        return 0


def _work(
    files: list[str], sections: list[job_logs.LogSection], numbers: Any, progress: Callable[[int], None]
) -> tuple[Tally, list[str]]:
    tally, notes, done = Tally(), [], 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        progress(done)

    for number in numbers:
        path = files[sections[number].file]
        if wrong := job_logs.count(tally, number, sections[number], path, add):
            notes.append(f"{path}: {wrong}")
    return tally, notes


def _with_another(
    files: list[str], sections: list[job_logs.LogSection], progress: Callable[[int], None]
) -> tuple[Tally, list[str]]:
    """Counts in two processes that take sections from the same pipe, so that neither waits for the other."""
    import pickle

    tokens, to_tokens = os.pipe()
    os.write(to_tokens, b"".join(n.to_bytes(TOKEN_BYTES, "little") for n in range(len(sections))))
    os.close(to_tokens)
    answer, to_answer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(answer)
            result = _work(files, sections, _taken(tokens), lambda done: _say(to_answer))
            with open(to_answer, "wb") as out:
                pickle.dump(result, out, protocol=pickle.HIGHEST_PROTOCOL)
            code = 0
        finally:
            os._exit(code)
    os.close(to_answer)
    try:
        tally, notes = _work(files, sections, _taken(tokens), progress)
        data = _answer(answer)
    finally:
        os.kill(child, signal.SIGKILL)  # it has answered, hangs, or this process is interrupted
        os.waitpid(child, 0)
        os.close(tokens)
        os.close(answer)
    try:
        other, theirs = pickle.loads(data)
    except (EOFError, pickle.UnpicklingError):  # it failed: count alone, and raise its error here
        return _work(files, sections, iter(range(len(sections))), progress)
    tally.add(other)
    return tally, notes + theirs


def _say(pipe: int) -> None:
    os.write(pipe, _COUNTED)


def _answer(pipe: int) -> bytes:
    """What the child writes, as far as it comes: less if the child ends or is stopped before."""
    data = []
    with open(pipe, "rb", closefd=False) as incoming:
        while ready([incoming], STALLED_S) and (block := os.read(pipe, BLOCK_BYTES)):
            data.append(block)
    return b"".join(data).lstrip(_COUNTED)


def _taken(tokens: int) -> Any:
    while token := os.read(tokens, TOKEN_BYTES):
        yield int.from_bytes(token, "little")
