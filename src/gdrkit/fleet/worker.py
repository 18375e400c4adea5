"""A process that judges one node after another: tasks as lines on standard input, rows on standard output.

A process of its own, and not a fork, because a hostile bundle may exhaust its memory or its time; then it is
killed and only that bundle's row is lost.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import sys

import msgspec
from msgspec import Struct

from gdrkit.evidence.target import open_host
from gdrkit.facts.expectation import Supplied
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.judge import judged, without_answer

MEMORY_LIMIT_BYTES = 2 << 30
"""Address space of one worker. The largest real bundle takes 200 MB."""
COLLECT_EVERY = 20
"""Nodes between two garbage collections, which find next to nothing: see `EvidenceMissing.fresh`."""


class Task(Struct, frozen=True):
    """A node to judge: the target that holds its evidence, and how the row names both."""

    path: bytes  # what to open; file names need not be text
    target: str  # for the row
    name: str = ""  # "": as the node calls itself
    expected: Supplied | None = None


def task_of(path: str, expected: Supplied | None = None) -> Task:
    """The task to judge the evidence at a path, which may hold bytes that are not text."""
    name = os.fsencode(path)
    return Task(name, name.decode("utf-8", "backslashreplace"), expected=expected)


def main() -> int:
    """Judge until standard input ends."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    gc.disable()
    gc.freeze()
    decoder, encoder = msgspec.json.Decoder(Task), msgspec.json.Encoder()
    out = sys.stdout.buffer
    for number, line in enumerate(sys.stdin.buffer, 1):
        out.write(encoder.encode(row_of(decoder.decode(line))) + b"\n")
        out.flush()
        if number % COLLECT_EVERY == 0:
            gc.collect()
    return 0


def row_of(task: Task) -> NodeRow:
    """The row of a task; any fault in its evidence becomes its reason."""
    try:
        return judged(open_host(os.fsdecode(task.path)), task.target, task.name, task.expected)
    except Exception as error:
        return without_answer(task.target, task.name, error, Standing.UNREADABLE)
