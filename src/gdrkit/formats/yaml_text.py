"""YAML and JSON of manifests, with the line of every key; duplicate keys are kept.

PyYAML parses the text into events. Scalars stay text: `no` and `on` do not become booleans. PyYAML's
compose() is not used, because in C it recurses: 200,000 opening brackets end the process (PyYAML 6.0.3).
Anchors, aliases, tags and merge keys are refused, so that nothing expands.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gdrkit.formats.errors import FormatError
from gdrkit.formats.yaml_values import MappingEntry, Scalar, Value, YamlMapping, YamlSequence

if TYPE_CHECKING:
    import yaml

DEPTH_LIMIT = 64
"""The maximum depth of nesting. The operators' own CRDs have up to 19 levels."""
CHARACTERS_LIMIT = 4 << 20
"""The maximum length of a text. The operators' largest CustomResourceDefinition has 152 KB; etcd refuses
objects over 1.5 MiB."""

DOCUMENTS_LIMIT = 10_000
"""The most documents of a stream. Each costs as much to begin as a hundred characters to read."""
EVENTS_LIMIT = 200_000
"""The most events of all documents, which the work follows, not the characters: `- a` has one in 4 bytes.
The operators' largest CustomResourceDefinition has some 10,000."""


class Document(Struct, frozen=True):
    """One document of a stream: its value, or why it could not be parsed."""

    line: int
    value: Value | None
    fault: str = ""


def documents(text: str) -> tuple[Document, ...]:
    """Every document of a stream, parsed separately: an error in one does not affect the others."""
    if len(text) > CHARACTERS_LIMIT:
        return (Document(1, None, f"more than {CHARACTERS_LIMIT} characters"),)
    found: list[Document] = []
    left = EVENTS_LIMIT
    for first_line, lines in _split(text.removeprefix("\ufeff")):
        if len(found) == DOCUMENTS_LIMIT or left <= 0:
            many = f"{EVENTS_LIMIT:,} keys and values" if left <= 0 else f"{DOCUMENTS_LIMIT:,} documents"
            found.append(Document(first_line, None, f"line {first_line}: after {many}, which is the limit"))
            break
        reader = _YamlReader("\n".join(lines), first_line, left)
        try:
            found.append(Document(first_line, reader.document()))
        except FormatError as error:
            found.append(Document(first_line, None, str(error)))
        left = reader.left
    return tuple(found)


def _split(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of each document, with the number of the first. Empty documents are skipped.

    PyYAML stops at the first error in a stream, so it gets each document separately."""
    lines: list[str] = []
    first = 1
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line[:3] in ("---", "...") and not line[3:4].strip():
            if any(map(_significant, lines)):
                yield first, lines
            rest = line[3:] if line.startswith("---") else ""
            lines, first = ["   " + rest if rest.strip() else ""], number
        elif line.startswith("%") and not any(map(_significant, lines)):
            lines.append("")  # a directive
        else:
            lines.append(line)
    if any(map(_significant, lines)):
        yield first, lines


def _significant(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#")


_ELSEWHERE = "text that does not belong to a key above it"
_MESSAGES = {
    "mapping values are not allowed": "a second key on one line",
    "could not find expected ':'": "not a key, and not indented below the key above",
    "tab character": "a tab in the indentation",
    "unexpected end of stream": "a quoted scalar that does not end",
    "expected <document start>": _ELSEWHERE,
    "expected '<document start>'": _ELSEWHERE,
    "expected key": _ELSEWHERE,
    "expected <block end>": _ELSEWHERE,
    "expected '-' indicator": _ELSEWHERE,
}
"""Messages for common errors: libyaml's or PyYAML's text, and the text used here."""


class _YamlReader:
    """Builds the value of one document from the parser's events."""

    def __init__(self, text: str, first: int, left: int) -> None:
        """`left`: how many events it may read. Afterwards: how many are left."""
        import yaml

        self.scalar, self.mapping = yaml.ScalarEvent, yaml.MappingStartEvent
        self.end = yaml.CollectionEndEvent
        # JSON writes characters above U+FFFF as two escapes (RFC 8259, 7), which PyYAML 6.0.3 refuses.
        self.text = re.sub(
            r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", _one_escape, text, flags=re.IGNORECASE
        )
        self.breaks = [match.start() for match in re.finditer("\n", self.text)]
        self.first, self.depth, self.after_flow, self.left = first, 0, False, left
        self.events = iter(yaml.parse(self.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))

    def document(self) -> Value:
        import yaml

        try:
            self._next(), self._next()  # start of the stream and of the document
            start = self._next()
            value = self._value(start)
            if isinstance(value, Scalar):
                raise self._error("neither a mapping nor a sequence", start.start_mark.index)
            self.after_flow = start.flow_style
            self._next(), self._next()
        except yaml.MarkedYAMLError as error:
            raise self._translated(error) from error
        except FormatError:
            raise
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            raise FormatError(f"line {self.first}: a character that YAML does not allow") from error
        return value

    def _next(self) -> Any:
        self.left -= 1
        event: Any = next(self.events)
        if self.left < 0:
            raise self._error(f"more than {EVENTS_LIMIT:,} keys and values", event.start_mark.index)
        return event

    def _line(self, index: int) -> int:
        """The line number, by line feeds only; PyYAML also counts U+0085 and U+2028, as YAML 1.1, 4.2
        requires."""
        return self.first + bisect_left(self.breaks, index)

    def _error(self, message: str, index: int) -> FormatError:
        return FormatError(f"line {self._line(index)}: {message}")

    def _value(self, event: Any) -> Value:
        """The value that begins with an event."""
        at = event.start_mark.index
        if event.anchor or getattr(event, "tag", None):  # an alias has the name of its anchor
            raise self._error(f"a scalar that starts with {self.text[at]!r}", at)
        if isinstance(event, self.scalar):
            block = event.style in ("|", ">")  # the last line break is not part of the text
            text = event.value.rstrip("\n") if block else event.value
            if not text.isascii():
                text.encode()  # raises for a single surrogate, which libyaml refuses too
            return Scalar(text, self._line(at), bool(event.style), event.style == "|")
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise self._error(f"nested deeper than {DEPTH_LIMIT}", at)
        value: Value
        if isinstance(event, self.mapping):
            value = YamlMapping(tuple(self._entries(bool(event.flow_style))), self._line(at))
        else:
            value = YamlSequence(tuple(map(self._value, self._members())), self._line(at))
        self.depth -= 1
        return value

    def _members(self) -> Iterator[Any]:
        """The first event of each member of a collection; the caller must read the member's other events."""
        while not isinstance(event := self._next(), self.end):
            yield event

    def _entries(self, in_flow: bool) -> Iterator[MappingEntry]:
        for start in self._members():
            key, at = self._value(start), start.start_mark.index
            if not isinstance(key, Scalar):
                raise self._error("text after a flow collection", at)
            if key.text == "<<" and not key.quoted:
                raise self._error("a merge key", at)
            end, event = start.end_mark.index, self._next()
            value = self._value(event)
            if isinstance(value, Scalar) and not value.text and not value.quoted:
                # No value; libyaml gives it the position of the next token.
                if in_flow and ":" not in self.text[end : event.start_mark.index]:
                    raise self._error("a key without a value in a flow mapping", at)  # {name}: a placeholder
                value = Scalar("", self._line(end))
            yield MappingEntry(key.text, key.line, value)

    def _translated(self, error: yaml.MarkedYAMLError) -> FormatError:
        """PyYAML's error with a message of this module, at the line where the error begins."""
        problem, context = error.problem or "", error.context or ""
        mark = error.problem_mark or error.context_mark
        at = mark.index if mark is not None else 0
        character = self.text[at : at + 1]
        if ("quoted scalar" in context or "simple key" in context) and error.context_mark is not None:
            at = error.context_mark.index
        if "an alias" in context or "an anchor" in context or "a tag" in context:
            character = "*" if "alias" in context else "&" if "anchor" in context else "!"
            return self._error(f"a scalar that starts with {character!r}", at)
        if "cannot start any token" in problem:
            tab = character == "\t"
            return self._error(
                "a tab in the indentation" if tab else f"a scalar that starts with {character!r}", at
            )
        if "flow mapping" in context or "flow sequence" in context:
            message = (
                "no comma and no closing bracket"
                if character.strip("\0")
                else "a flow collection that does not end"
            )
            return self._error(message, at)
        message = next((ours for theirs, ours in _MESSAGES.items() if theirs in problem), problem)
        if self.after_flow and message == _ELSEWHERE:
            message = "text after a flow collection"
        return self._error(message, at)


def _one_escape(pair: re.Match[str]) -> str:
    """One escape in place of those of two surrogates. Source: RFC 2781, 2.2."""
    return f"\\U{0x10000 + ((int(pair[1], 16) & 0x3FF) << 10) + (int(pair[2], 16) & 0x3FF):08x}"
