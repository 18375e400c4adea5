"""The logs of a job: files, folders, name patterns, standard input; plain, gzip or zstd; read in chunks.

Memory is bounded by the chunks, not by the size of a file, packed or unpacked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.stream import STREAMS_LIMIT
from gdrkit.facts.manifest_excerpts import is_manifest
from gdrkit.formats.compressed import compression, damage, decoder
from gdrkit.formats.errors import FormatError
from gdrkit.formats.utf_16 import MARKS, in_utf_8
from gdrkit.jobs.line_counts import Tally
from gdrkit.jobs.runtime_prefixes import Unwrapper
from gdrkit.jobs.written import LONGEST_BYTES, NOTE, nccl_text

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK_BYTES = 512 << 10
SECTION_BYTES = 16 << 20
"""The part of a large file that one process counts at a time."""
HEAD_BYTES = 1 << 16
LONGEST_LINE_BYTES = 1 << 20
"""A longer line counts as several: NCCL writes no line longer than 4 KiB, src/debug.cc."""
STDIN = "-"


class LogSection(Struct, frozen=True):
    """A file, or a part of a plain one that begins and ends with whole lines."""

    file: int
    start: int = 0
    end: int = -1  # -1: to the end


def find(arguments: list[str]) -> list[str]:
    """The files named by arguments, each once: files, all files below folders, patterns, "-".

    Raises TargetError for an argument without files."""
    found: dict[str, None] = {}
    for argument in arguments or [STDIN]:
        if argument == STDIN:
            if sys.stdin is None or sys.stdin.isatty():
                why = "closed" if sys.stdin is None else "a terminal"
                raise TargetError(f"no log: standard input is {why}", "name a file, or pipe a log in")
            found[STDIN] = None
        elif os.path.isdir(argument):
            files = list(_below(argument))
            if not files:
                raise TargetError(f"{argument}: no files in this folder")
            found.update(dict.fromkeys(files))
        elif os.path.lexists(argument):
            found[argument] = None
        else:
            found.update(dict.fromkeys(_matching(argument)))
    return list(found)


def _below(folder: str) -> Iterator[str]:
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            whole = os.path.join(path, name)
            if not name.startswith(".") and os.path.isfile(whole):
                yield whole


def _matching(pattern: str) -> list[str]:
    from glob import glob

    files = sorted(path for path in glob(pattern, recursive=True) if os.path.isfile(path))
    if not files:
        raise TargetError(f"{pattern}: no such file or directory")
    return files


def sections(files: list[str]) -> list[LogSection]:
    """The parts that can be counted separately. A file that is packed, piped or wrapped is one part."""
    found = []
    for number, path in enumerate(files):
        if path == STDIN or not os.path.isfile(path):
            found.append(LogSection(number))
            continue
        with _opened(path) as file:
            size, head = os.fstat(file.fileno()).st_size, file.read(HEAD_BYTES)
            whole = compression(head) or head.startswith(MARKS) or Unwrapper(head).needs_all_before
            if whole or size < 2 * SECTION_BYTES:
                found.append(LogSection(number))
                continue
            edges = [0, *(_line_start(file, at) for at in range(SECTION_BYTES, size, SECTION_BYTES)), size]
        edges = sorted(set(edges))
        found += [LogSection(number, start, end) for start, end in pairwise(edges)]
    return found


def _line_start(file: BinaryIO, at: int) -> int:
    """The offset of the first line that begins at or after an offset; that offset itself in an endless
    line."""
    file.seek(at)
    newline = file.read(LONGEST_LINE_BYTES).find(b"\n")
    return at + newline + 1


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise TargetError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def beginning(path: str) -> bytes:
    """The first piece of a file, unpacked. Raises TargetError, FormatError and OSError."""
    with _opened(path) as file:
        pieces = _pieces(file, LogSection(0), lambda size: None)
        head = next(pieces, b"")
        kind = compression(head)
        return next(_unpacked(kind, head, pieces), b"") if kind else head


def count(tally: Tally, number: int, section: LogSection, path: str, progress: Callable[[int], None]) -> str:
    """Feed a section to a tally. Returns the fault of the file, or "". `progress` gets numbers of bytes
    read."""
    stream: Any = sys.stdin.buffer if path == STDIN else _opened(path)
    try:
        pieces = _pieces(stream, section, progress)
        head = next(pieces, b"")
        packed = compression(head)
        if packed:
            pieces = _unpacked(packed, head, pieces)
            head = next(pieces, b"")
        if head.startswith(MARKS):
            pieces = in_utf_8(chain((head,), pieces))
            head = next(pieces, b"")
        if not head.strip():
            return "empty"
        if b"\0" in head[:HEAD_BYTES]:
            return "not a text file"
        if _is_manifest(head):
            return f"a manifest, not a log: gdr config check {path}"
        if not packed and section.end < 0 and len(head) <= LONGEST_BYTES:
            more = next(pieces, b"")
            text = None if more else nccl_text(Unwrapper(head[:HEAD_BYTES]).feed(head))
            if text is not None and text.dropped:
                tally.feed("\n".join((*text.lines, "")).encode(), number)
                return NOTE
            pieces = chain(filter(None, (more,)), pieces)
        _feed(tally, number, Unwrapper(head[:HEAD_BYTES]), head, pieces)
    except FormatError as error:
        return str(error)
    except OSError as error:
        raise TargetError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    finally:
        if path != STDIN:
            stream.close()
    return ""


def _is_manifest(head: bytes) -> bool:
    return b"apiVersion" in head and is_manifest(head[:HEAD_BYTES].decode("utf-8", "replace").splitlines())


def _feed(tally: Tally, number: int, wrapper: Unwrapper, head: bytes, pieces: Iterator[bytes]) -> None:
    """Feeds whole lines to the tally; of a damaged archive those up to the damage, before it raises."""
    rest, piece = b"", head
    try:
        while piece:
            whole, newline, rest = (rest + piece).rpartition(b"\n")
            if not newline and len(rest) > LONGEST_LINE_BYTES:
                at = wrapper.edge(rest)
                whole, newline, rest = rest[:at], b"\n", rest[at:]
            if newline:
                tally.feed(wrapper.feed(whole + newline), number)
            piece = next(pieces, b"")
    finally:
        if rest:
            tally.feed(wrapper.feed(rest), number, ends_whole=wrapper.shows_ends)


def _pieces(stream: Any, section: LogSection, progress: Callable[[int], None]) -> Iterator[bytes]:
    left = section.end - section.start if section.end >= 0 else sys.maxsize
    if section.start:
        stream.seek(section.start)
    while left > 0 and (piece := stream.read(min(CHUNK_BYTES, left))):
        left -= len(piece)
        progress(len(piece))
        yield piece


def _unpacked(kind: str, head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The content of all streams of a packed file. Raises FormatError if it is damaged or truncated, or has
    too many."""
    if kind == "xz":
        raise FormatError("xz is not supported: unpack the file, and pipe it in")
    start = decoder(kind)
    stream, data, count = start(), head, 1
    try:
        while True:
            output, data = stream.decompress(data, CHUNK_BYTES), b""
            if output:
                yield output
            if stream.eof:
                data = stream.unused_data.lstrip(b"\0")
                if not data and not (data := next(pieces, b"")):
                    return
                count += 1
                if count > STREAMS_LIMIT:
                    raise FormatError(f"the {kind} file has more than {STREAMS_LIMIT:,} parts")
                stream = start()
            elif not output and not (data := next(pieces, b"")):
                raise FormatError(f"the {kind} file is truncated")
    except damage(kind):
        raise FormatError(f"the {kind} file is damaged") from None
