"""Removes what log stores, container runtimes, terminals and Markdown add to each line.

Lines keep their numbers: if a runtime splits a long line in two, the first becomes empty. Only of a document
without line breaks each log line is a line of its own.
Sources: formats/container_log.py; formats/log_store.py; ECMA-48, 5.4 for colours.
"""

from __future__ import annotations

import functools
import re
from typing import Protocol

from gdrkit.formats.container_log import BOX_END, BOX_START, CRI, REPEATED
from gdrkit.formats.log_store import PARTIAL_BYTES, JsonFrame, frame_of
from gdrkit.programs.nccl.log_lines import is_framed

MOST_FRAMES = 4
"""Frames within frames at most: a store's CSV, a collector's JSON, a runtime's time, a person's time."""


class _Frame(Protocol):
    def feed(self, chunk: bytes) -> bytes:
        """The content of a chunk of whole lines."""

    def edge(self, text: bytes) -> int:
        """Where an endless line may be cut."""


class Unwrapper:
    """Unwraps chunks of whole lines of one file; its first bytes decide the format."""

    def __init__(self, head: bytes) -> None:
        self._frames: list[_Frame] = []
        while len(self._frames) < MOST_FRAMES and (frame := _outermost(head)) is not None:
            self._frames.append(frame)
            sample = _outermost(head)  # another one: a frame may keep the beginning of a line
            head = sample.feed(head) if sample is not None else b""

    @property
    def needs_all_before(self) -> bool:
        """Whether a part of the file can be read only after all that comes before it."""
        return any(not isinstance(frame, _Stamped) for frame in self._frames)

    @property
    def shows_ends(self) -> bool:
        """Whether each line is known to be whole, since the frame has a mark at its end."""
        return any(isinstance(frame, JsonFrame) for frame in self._frames)

    def edge(self, text: bytes) -> int:
        """Where an endless line may be cut."""
        return self._frames[0].edge(text) if self._frames else len(text)

    def feed(self, chunk: bytes) -> bytes:
        """The chunk without its wrapping."""
        for frame in self._frames:
            chunk = frame.feed(chunk)
        if b"\x1b" in chunk:
            chunk = _colour().sub(b"", chunk)
        if b"\xe2\x94" in chunk or b"\xe2\x95" in chunk:  # U+2500 to U+257F
            chunk = _box().sub(b"", chunk)
        if b"**" in chunk:  # Markdown's emphasis, which no line of NCCL has
            chunk = chunk.replace(b"**", b"")
        return chunk


def without_repeats(chunk: bytes) -> tuple[bytes, int]:
    """Whole lines as NCCL printed them, and how many lines of NCCL Ray dropped for being like these."""
    hidden = 0
    if b"repeated " not in chunk:
        return chunk, hidden
    for found in _repeated().finditer(chunk):
        line = chunk[chunk.rfind(b"\n", 0, found.start()) + 1 : found.start()]
        if found["times"] and is_framed(line.decode("utf-8", "replace")):
            hidden += int(found["times"]) - 1
    return _repeated().sub(rb"\g<line>", chunk), hidden


def _outermost(head: bytes) -> _Frame | None:
    first = next((line for line in head.split(b"\n") if line.strip()), b"")
    if _cri().match(first):
        return _Cri()
    if _stamp().match(first):
        return _Stamped()
    return frame_of(head)


class _Stamped:
    """A time before each line."""

    def feed(self, chunk: bytes) -> bytes:
        return _stamp().sub(b"", chunk)

    def edge(self, text: bytes) -> int:
        return len(text)


class _Cri:
    """Lines of the Kubernetes runtimes, of which they split long ones."""

    def __init__(self) -> None:
        self._partial: dict[bytes, bytes] = {}

    def feed(self, chunk: bytes) -> bytes:
        if b" P " in chunk or self._partial:
            return b"\n".join(map(self._line, chunk.split(b"\n")))
        return _cri().sub(b"", chunk)

    def edge(self, text: bytes) -> int:
        return len(text)

    def _line(self, line: bytes) -> bytes:
        found = _cri().match(line)
        if found is None:
            return line
        before, text = self._partial.pop(found[1], b""), line[found.end() :]
        if found[2] == b"P" and len(before) < PARTIAL_BYTES:
            self._partial[found[1]] = before + text
            return b""
        return before + text


@functools.cache
def _cri() -> re.Pattern[bytes]:
    return re.compile(b"(?m)^" + CRI.encode())


@functools.cache
def _stamp() -> re.Pattern[bytes]:
    return re.compile(rb"(?m)^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[0-9.,:Z+-]*\]? ")


@functools.cache
def _box() -> re.Pattern[bytes]:
    return re.compile(f"(?m){BOX_START}|{BOX_END}".encode())


@functools.cache
def _repeated() -> re.Pattern[bytes]:
    return re.compile(REPEATED.encode())


@functools.cache
def _colour() -> re.Pattern[bytes]:
    return re.compile(rb"\x1b\[[0-9;:?]*[ -/]*[@-~]")
