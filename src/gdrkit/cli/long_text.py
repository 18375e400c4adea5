"""A text that is longer than is read: its first and its last lines, in bounded memory."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

from msgspec import Struct

from gdrkit.cli.files import STDIN, shown
from gdrkit.evidence.errors import TargetError
from gdrkit.explain.lines.transcript import NO_GAP, Gap

BLOCK_BYTES = 1 << 20
LONGEST_BYTES = 4 << 30
"""Of a text whose ends are read: some eight seconds. What is longer may have no end."""

MARK = b"[...]\n"
"""What people write in place of lines that they left out: a log with it is not a whole one."""


class CutText(Struct, frozen=True):
    """A text without its middle."""

    content: bytes
    gap: Gap
    size_bytes: int  # of the whole text

    @property
    def is_cut(self) -> bool:
        return self.gap != NO_GAP


def read_cut(
    name: str, limit_bytes: int, head_bytes: int, tail_bytes: int, check: Callable[[bytes], None]
) -> CutText:
    """The text of a file, or of standard input for "-"; whole up to a limit. `check` is given the start of a
    longer one before more of it is read, and may raise. Raises OSError, and TargetError for a text above
    LONGEST_BYTES."""
    if name == STDIN:
        return _cut(name, sys.stdin.buffer, limit_bytes, head_bytes, tail_bytes, check)
    with open(name, "rb") as file:
        return _cut(name, file, limit_bytes, head_bytes, tail_bytes, check)


def _cut(
    name: str, file: BinaryIO, limit_bytes: int, head_bytes: int, tail_bytes: int,
    check: Callable[[bytes], None],
) -> CutText:  # fmt: skip
    start = file.read(limit_bytes + 1)
    if len(start) <= limit_bytes:
        return CutText(start, NO_GAP, len(start))
    check(start)
    head = start[: start.rfind(b"\n", 0, head_bytes) + 1]
    blocks = deque([start[len(head) :]])
    held, size, dropped = len(blocks[0]), len(start), 0
    while block := file.read(BLOCK_BYTES):
        size += len(block)
        if size > LONGEST_BYTES:
            raise TargetError(
                f"{shown(name)}: larger than {LONGEST_BYTES >> 30} GiB", "pipe a part of it in"
            )
        held += len(block)
        blocks.append(block)
        while held - len(blocks[0]) >= tail_bytes:
            first = blocks.popleft()
            held -= len(first)
            dropped += first.count(b"\n")
    rest = b"".join(blocks)
    at = rest.find(b"\n", max(0, len(rest) - tail_bytes)) + 1
    dropped += rest.count(b"\n", 0, at)
    before = head.count(b"\n") + 1  # the mark stands for the first line that is left out
    return CutText(head + MARK + rest[at:], Gap(before, max(0, dropped - 1)), size)
