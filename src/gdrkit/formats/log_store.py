"""The log lines in what a log store exports: JSON, an object a line or a whole document, or CSV.

Each store has a name of its own for the field with the line. So the field is the one whose values are lines
of a program; where the beginning of a text has none, it is one with a usual name. Work is linear: no text
is decoded as a whole, and each expression looks at a byte a bounded number of times.

Sources: RFC 8259, section 7 (strings); RFC 4180 (CSV); Docker daemon/logger/jsonfilelog, which ends each
line with a newline, and one that it splits without.
"""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from gdrkit.formats.regex import regex

PARTIAL_BYTES = 1 << 16
"""How much of a line that a runtime split is joined again: Docker splits at 16 KiB."""

USUAL_NAMES = ("log", "message", "msg", "textpayload", "line", "logmessage", "body", "text", "raw", "event")
"""Names of fields with a log line, letters alone: @message, MESSAGE and LogMessage are among them."""

PROGRAM = regex(rb"NCCL (?:INFO|WARN|version) |UCX {1,8}[A-Z]{4,5} |NVRM: ")
"""What lines of programs have that are worth a log's export."""

_STRING = rb'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)"'
_PAIR = regex(rb"(?<!\\)" + _STRING + rb"\s*+:\s*+" + _STRING)
"""A name and its value. A quotation mark behind a backslash begins none, so two searches share no byte."""
_ITEM = rb"(?m)(?:[\[,]|^)[ \t]*+" + _STRING + rb"(?=[ \t\r]*+(?:[\],]|$))"
"""A string in an array, also alone on its line."""
_ITEMS = regex(_ITEM)
_OBJECT = regex(rb"\s*+(?:\[\s*+)?\{\s*+" + _STRING + rb"\s*+:")
_STREAM = regex(rb'(?<!\\)"stream"\s*+:\s*+"(\w*+)"')
_LEFT_OUT = (b"{", b"}", b"]", b'"')
"""How the other lines of a document begin."""


class JsonFrame:
    """The field of JSON that holds the log lines. A line of the text stays one line; only one with several
    values, as a document without line breaks is, becomes as many."""

    def __init__(self, name: bytes | None, splits: bool) -> None:
        key = b"" if name is None else rb'(?<!\\)"' + re.escape(name) + rb'"\s*+:\s*+'
        self._value = re.compile(key + _STRING if key else _ITEM)
        self._is_item = name is None
        self._splits = splits
        self._partial: dict[bytes, bytes] = {}

    def feed(self, chunk: bytes) -> bytes:
        """The log lines of a chunk of whole lines."""
        return b"\n".join(map(self._line, chunk.split(b"\n")))

    def edge(self, text: bytes) -> int:
        """Where an endless line may be cut: after its last whole value."""
        at = max(_last(text, end) for end in (b'",', b'"}', b'"]'))
        return at + 1 if at > 0 else len(text)

    def _line(self, line: bytes) -> bytes:
        values = self._value.findall(line)
        if self._is_item:
            values = [value for value in values if not value.isdigit()]  # the times beside the lines
        if not values:
            return b"" if line.lstrip()[:1] in _LEFT_OUT or line.strip() in (b"[", b"[{") else line
        if self._splits and len(values) == 1:
            return self._joined(line, _decoded(values[0]))
        return b"\n".join(_on_one_line(_decoded(value)) for value in values)

    def _joined(self, line: bytes, text: bytes) -> bytes:
        """A line of which the runtime may have split off the beginning; b"" if this is a beginning."""
        found = _STREAM.search(line)
        stream = found[1] if found else b""
        before = self._partial.pop(stream, b"")
        if not text.endswith(b"\n") and len(before) < PARTIAL_BYTES:
            self._partial[stream] = before + text
            return b""
        return before + _on_one_line(text)


class CsvFrame:
    """The column of CSV that holds the log lines."""

    def __init__(self, delimiter: bytes, column: int, *, last: bool) -> None:
        field = rb'(?:"(?:[^"\n]|"")*+"|[^' + delimiter + rb'"\n]*+)' + delimiter
        plain = rb"[^\n]*+" if last else rb"[^" + delimiter + rb"\n]*+"
        self._row = re.compile(
            rb"(?:" + field + rb"){%d}" % column + rb'(?:"((?:[^"\n]|"")*+)|(' + plain + rb"))"
        )

    def feed(self, chunk: bytes) -> bytes:
        """The log lines of a chunk of whole lines."""
        return b"\n".join(map(self._line, chunk.split(b"\n")))

    def edge(self, text: bytes) -> int:
        return len(text)

    def _line(self, line: bytes) -> bytes:
        row = self._row.match(line)
        if row is None:
            return line
        return row[2] if row[1] is None else row[1].replace(b'""', b'"')


def frame_of(head: bytes) -> JsonFrame | CsvFrame | None:
    """The frame of a text by its beginning; None if it is not of a log store."""
    if _OBJECT.match(head) or any(map(_is_object, head.split(b"\n"))):
        return _json(head) or _csv(head)
    return _csv(head)


def _is_object(line: bytes) -> bool:
    """Whether a program's line is inside of an object, also behind words of a person or a runtime's tag."""
    start = line.find(b'{"')
    return start >= 0 and PROGRAM.search(line, start) is not None and not PROGRAM.search(line[:start])


MOST_FRAMES = 3
"""Frames within frames at most: CSV whose column has the JSON of a collector, with the line in one field."""


def without_frames(text: bytes) -> bytes:
    """The log lines of a text, where its frame holds lines of a program; else the text: other JSON and CSV
    may be no log."""
    for _ in range(MOST_FRAMES):
        frame = frame_of(text) if PROGRAM.search(text) else None
        if frame is None:
            break
        text = frame.feed(text)
    return text


def logged_text(line: str) -> str | None:
    """The log line in an object of JSON on one line, by the name of its field; None if there is none."""
    found = _json(line.encode(errors="replace"))
    if found is None:
        return None
    return found.feed(line.encode(errors="replace")).decode(errors="replace")


def _json(head: bytes) -> JsonFrame | None:
    values: dict[bytes | None, list[bytes]] = {}
    for name, value in _PAIR.findall(head):
        values.setdefault(name, []).append(value)
    if items := _ITEMS.findall(head):
        values[None] = items
    name = _field({key: sum(1 for value in found if PROGRAM.search(value)) for key, found in values.items()})
    if name == b"":
        return None
    return JsonFrame(name, name == b"log" and any(value.endswith(rb"\n") for value in values[name]))


def _field(counts: dict[bytes | None, int]) -> bytes | None:
    """The field with most lines of a program, else that with the first usual name; b"" if there is none.
    None stands for the items of arrays."""
    if counts and (most := max(counts, key=lambda one: counts[one])) != b"" and counts[most]:
        return most
    usual = {_letters(name): name for name in reversed(counts) if name}
    return next((usual[name] for name in USUAL_NAMES if name in usual), b"")


def _letters(name: bytes) -> str:
    return "".join(filter(str.isalpha, name.decode(errors="replace").casefold()))


_NAMES = regex(rb"[\w@. ()\[\]/:-]{0,64}")
MOST_COLUMNS = 200
SAMPLE_ROWS = 1000
"""Rows that decide on a column."""


def _csv(head: bytes) -> CsvFrame | None:
    first, _, rest = head.lstrip().partition(b"\n")
    delimiter = max((b",", b";", b"\t"), key=first.count)
    names = [name.strip(b'"\r') for name in first.split(delimiter)]
    if not 2 <= len(names) <= MOST_COLUMNS or not all(map(_NAMES.fullmatch, names)):
        return None
    field = re.compile(rb'(?:^|%b)("(?:[^"]|"")*+"?|[^%b]*+)' % (delimiter, delimiter))
    columns: Counter[int] = Counter()
    for line in rest.split(b"\n")[:SAMPLE_ROWS]:
        if PROGRAM.search(line):
            values = field.findall(line)
            at = next((at for at, value in enumerate(values) if PROGRAM.search(value)), -1)
            columns[at if len(values) >= len(names) else -1] += 1
    usual = [_letters(name) in USUAL_NAMES for name in names]
    column = columns.most_common(1)[0][0] if columns else usual.index(True) if sum(usual) == 1 else -1
    # the first column is that of every line without a delimiter
    if not 0 <= column < len(names) or (column == 0 and not usual[0]):
        return None
    return CsvFrame(delimiter, column, last=column == len(names) - 1)


# -- values ------------------------------------------------------------------------------------------------


def _decoded(value: bytes) -> bytes:
    """A string of JSON; as it stands if it is damaged."""
    if b"\\" not in value:
        return value
    try:
        return msgspec.json.decode(b'"' + value + b'"', type=str).encode(errors="replace")
    except (msgspec.DecodeError, UnicodeError):
        return value


def _last(text: bytes, end: bytes) -> int:
    """Where the last string begins its end; at most 0 if there is none."""
    at = text.rfind(end)
    while at > 0 and text[at - 1 : at] == b"\\":
        at = text.rfind(end, 0, at)
    return at


def _on_one_line(text: bytes) -> bytes:
    """A text without line breaks: where it has several lines, with the blanks between them that separate
    lines copied as one from a screen."""
    return b"  ".join(text.rstrip(b"\r\n").splitlines()) if b"\n" in text or b"\r" in text else text
