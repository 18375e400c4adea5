"""Removes what container runtimes, terminals and Markdown add to each line.

Lines keep their numbers: if a runtime splits a long line in two, the first becomes empty.
Sources: formats/container_log.py; ECMA-48, 5.4 for colours.
"""

from __future__ import annotations

import functools
import re

from gdrkit.formats.container_log import BOX_END, BOX_START, CRI, logged_line

PARTIAL_BYTES = 1 << 16
"""How much of a line that a runtime split is joined again. Both split at 16 KiB."""


class Unwrapper:
    """Unwraps chunks of whole lines of one file; its first bytes decide the format."""

    def __init__(self, head: bytes) -> None:
        first = next((line for line in head.split(b"\n") if line.strip()), b"")
        if _cri().match(first):
            self.kind = "cri"
        elif first.lstrip()[:1] == b"{" and logged_line(first) is not None:
            self.kind = "json"
        elif _stamp().match(first):
            self.kind = "stamped"
        else:
            self.kind = ""
        self._partial: dict[bytes, bytes] = {}

    def feed(self, chunk: bytes) -> bytes:
        """The chunk without its wrapping."""
        if self.kind == "cri":
            if b" P " in chunk or self._partial:
                chunk = b"\n".join(map(self._cri, chunk.split(b"\n")))
            else:
                chunk = _cri().sub(b"", chunk)
        elif self.kind == "json":
            chunk = b"\n".join(map(self._json, chunk.split(b"\n")))
        elif self.kind == "stamped":
            chunk = _stamp().sub(b"", chunk)
        if b"\x1b" in chunk:
            chunk = _colour().sub(b"", chunk)
        if b"\xe2\x94" in chunk or b"\xe2\x95" in chunk:  # U+2500 to U+257F
            chunk = _box().sub(b"", chunk)
        if b"**" in chunk:  # Markdown's emphasis, which no line of NCCL has
            chunk = chunk.replace(b"**", b"")
        return chunk

    def _cri(self, line: bytes) -> bytes:
        found = _cri().match(line)
        return line if found is None else self._whole(found[1], line[found.end() :], found[2] == b"P")

    def _json(self, line: bytes) -> bytes:
        logged = logged_line(line)
        if logged is None:
            return line
        text = logged.text.encode()
        partial = logged.log is not None and not text.endswith(b"\n")
        return self._whole(logged.stream.encode(), text.rstrip(b"\r\n").replace(b"\n", b" "), partial)

    def _whole(self, stream: bytes, text: bytes, partial: bool) -> bytes:
        before = self._partial.pop(stream, b"")
        if partial and len(before) < PARTIAL_BYTES:
            self._partial[stream] = before + text
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
def _colour() -> re.Pattern[bytes]:
    return re.compile(rb"\x1b\[[0-9;:?]*[ -/]*[@-~]")
