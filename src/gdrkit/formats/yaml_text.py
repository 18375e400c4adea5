"""YAML as people write manifests: block mappings and sequences, flow collections (JSON too), scalars. PURE.

Keeps what a YAML library throws away: the line of every key, and keys that stand twice in one mapping.
It reads a subset and says so: anchors, aliases, tags, merge keys, explicit keys and scalars that run over
several lines raise FormatError instead of being guessed at. Source: YAML 1.2.2, chapters 6 to 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.evidence import FormatError
from gdrkit.formats.yaml_values import Entry, Scalar, Value, YamlMapping, YamlSequence

DEEPEST = 64
"""Levels of nesting that are read. The operators' own CRDs reach 19 levels; deeper text is refused."""


class Document(Struct, frozen=True):
    """One document of a stream: its value, or why it could not be read."""

    line: int
    value: Value | None
    fault: str = ""


def documents(text: str) -> tuple[Document, ...]:
    """Every document of a stream, each judged by itself: one that cannot be read spoils no other."""
    found = []
    for first_line, lines in _split(text):
        try:
            found.append(Document(first_line, _Reader(lines, first_line).document()))
        except FormatError as error:
            found.append(Document(first_line, None, str(error)))
    return tuple(found)


def scan(text: str) -> Value:
    """The single document of a text. Raises FormatError if it is none, several, or beyond the subset."""
    found = documents(text)
    if len(found) != 1:
        raise FormatError(f"{len(found)} documents instead of one")
    if found[0].value is None:
        raise FormatError(found[0].fault)
    return found[0].value


def _split(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of each document, with the number of the first. Empty documents are passed over."""
    lines: list[str] = []
    first = 1
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if re.match(r"(---|\.\.\.)(\s|$)", line):
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


_KEY = re.compile(
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^']|'')*)'|(?P<plain>[^\s\-?:,\[\]{}#&*!|>'"%@`][^#:]*?
    |[-?:](?=[^\s])[^#:]*?|[^\s\-?:,\[\]{}#&*!|>'"%@`](?:[^#:]|:(?=\S)|(?<=\S)\#)*?))[ ]*:(?=\s|$)""",
    re.VERBOSE,
)
_FLOW_SCALAR = re.compile(
    r"""(?:[^\s,\[\]{}&*!|>%@`?:#"'-]|[-?:](?=[^\s,\[\]{}]))"""
    r"""(?:[^,\[\]{}:#]|:(?=[^\s,\[\]{}])|(?<=\S)#)*"""
)
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "r": "\r", "0": "\0", " ": " ", "b": "\b"}
_INDICATORS = "&*!%@`|>"


class _Reader:
    """Reads one document, line by line; `self.at` is the next line that was not consumed."""

    def __init__(self, lines: list[str], first: int) -> None:
        self.lines, self.first, self.at, self.depth = lines, first, 0, 0

    def document(self) -> Value:
        line = self._peek()
        if line is None:
            raise FormatError("an empty document")
        value = self._block(_indent(line))
        if isinstance(value, Scalar):
            raise self._wrong("neither a mapping nor a sequence", 0)
        if self._peek() is not None:
            raise self._wrong("text that belongs to nothing above it")
        return value

    def _wrong(self, what: str, at: int | None = None) -> FormatError:
        return FormatError(f"line {self.first + (self.at if at is None else at)}: {what}")

    @property
    def _number(self) -> int:
        return self.first + self.at

    def _peek(self) -> str | None:
        """The next line that says something, or None; comments and blank lines before it are passed over."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if _significant(line):
                if "\t" in line[: len(line) - len(line.lstrip())]:
                    raise self._wrong("a tab in the indentation")
                return line
            self.at += 1
        return None

    def _block(self, indent: int) -> Value:
        """What starts on the next line, at this indentation."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._wrong(f"nested deeper than {DEEPEST}")
        line = self.lines[self.at]
        text = line[indent:]
        if _is_item(text):
            value: Value = self._sequence(indent)
        elif _KEY.match(text):
            value = self._mapping(indent)
        elif text[0] in "|>":
            raise self._wrong("a block scalar on a line of its own")
        else:
            value = self._inline(text, indent - 1)
        self.depth -= 1
        return value

    def _sequence(self, indent: int) -> YamlSequence:
        items, start = [], self._number
        while (line := self._peek()) is not None and _indent(line) == indent and _is_item(line[indent:]):
            rest = line[indent + 1 :]
            if _significant(rest):
                inner = indent + 1 + _indent(rest)
                if "\t" in rest[: inner - indent - 1]:
                    raise self._wrong("a tab in the indentation")
                self.lines[self.at] = " " * (indent + 1) + rest
                items.append(self._block(inner))
            else:
                items.append(self._nested(indent, allow_sequence=False))
        self._expect_outdent(indent)
        return YamlSequence(tuple(items), start)

    def _mapping(self, indent: int) -> YamlMapping:
        entries, start = [], self._number
        while (line := self._peek()) is not None and _indent(line) == indent:
            match = _KEY.match(line[indent:])
            if match is None:
                raise self._wrong("neither a key nor deeper than the key above")
            key, number = self._key(match), self._number
            rest = line[indent + match.end() :]
            if _significant(rest):
                value = self._inline(rest.lstrip(), indent)
            else:
                value = self._nested(indent, allow_sequence=True)
            entries.append(Entry(key, number, value))
        self._expect_outdent(indent)
        return YamlMapping(tuple(entries), start)

    def _key(self, match: re.Match[str]) -> str:
        if match["double"] is not None:
            return self._unescape(match["double"])
        if match["single"] is not None:
            return match["single"].replace("''", "'")
        key = match["plain"].rstrip()
        if key == "<<":
            raise self._wrong("a merge key")
        return key

    def _nested(self, indent: int, *, allow_sequence: bool) -> Value:
        """What stands below a key or a dash whose own line says no more."""
        number = self._number
        self.at += 1
        line = self._peek()
        if line is not None:
            deeper = _indent(line)
            if deeper > indent or (deeper == indent and allow_sequence and _is_item(line[indent:])):
                return self._block(deeper)
        return Scalar("", number)

    def _expect_outdent(self, indent: int) -> None:
        line = self._peek()
        if line is not None and _indent(line) > indent:
            raise self._wrong("deeper than what stands above it")

    def _inline(self, text: str, indent: int) -> Value:
        """A value that starts on a key's own line; `indent` is that of its parent."""
        number = self._number
        if text[0] in "|>":
            return self._literal(text, indent)
        if text[0] in "{[":
            return self._flow(text)
        if text[0] in "\"'":
            scalar, rest = self._quoted(text)
            if _significant(rest) or (rest.strip() and not rest[0].isspace()):
                raise self._wrong("text after a quoted scalar")
            self.at += 1
        else:
            scalar = Scalar(self._plain(text), number)
            self.at += 1
        following = self._peek()
        if following is not None and _indent(following) > indent:
            raise self._wrong("a scalar that runs over several lines", self.at)
        return scalar

    def _plain(self, text: str) -> str:
        text = re.split(r"\s#", text, maxsplit=1)[0].rstrip()
        if text[0] in _INDICATORS or text[0] in ",]}" or re.match(r"[-?:](\s|$)", text):
            raise self._wrong(f"a scalar that starts with {text[0]!r}")
        if re.search(r":(\s|$)", text):
            raise self._wrong("a second key on one line")
        return text

    def _quoted(self, text: str) -> tuple[Scalar, str]:
        pattern = r'"((?:[^"\\]|\\.)*)"' if text[0] == '"' else r"'((?:[^']|'')*)'"
        match = re.match(pattern, text)
        if match is None:
            raise self._wrong("a quoted scalar that does not end on its line")
        body = self._unescape(match[1]) if text[0] == '"' else match[1].replace("''", "'")
        return Scalar(body, self._number, quoted=True), text[match.end() :]

    def _unescape(self, text: str) -> str:
        def one(match: re.Match[str]) -> str:
            if match[1]:
                return chr(int(match[1][1:], 16))
            if match[2] not in _ESCAPES:
                raise self._wrong(f"an escape that is not known: \\{match[2]}")
            return _ESCAPES[match[2]]

        return re.sub(r"\\(?:(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})|(.))", one, text)

    def _literal(self, text: str, indent: int) -> Scalar:
        """A block scalar, literal or folded. What is in it is text, whatever it looks like."""
        header = re.fullmatch(r"[|>]([+-]?)(\d?)([+-]?)\s*(#.*)?", text.rstrip())
        if header is None or header[2]:
            raise self._wrong("a block scalar with an indentation of its own")
        number, lines = self._number, []
        self.at += 1
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and _indent(line) <= indent:
                break
            lines.append(line)
            self.at += 1
        depth = next((_indent(line) for line in lines if line.strip()), 0)
        while lines and not lines[-1].strip() and len(lines[-1]) <= depth:
            lines.pop()
        if any(_indent(line) < depth if line.strip() else len(line) > depth for line in lines):
            raise self._wrong("a block scalar whose lines move left")
        if text[0] == "|":
            return Scalar("\n".join(line[depth:] for line in lines), number, quoted=True)
        if any(not line.strip() or line[depth].isspace() for line in lines):
            raise self._wrong("a folded scalar of several paragraphs")
        return Scalar(" ".join(line[depth:] for line in lines), number, quoted=True)

    def _flow(self, text: str) -> Value:
        """A flow collection, which may run over lines; JSON is one."""
        reader = _Flow(self, text)
        value = reader.value(self.depth)
        reader.expect_end()
        return value


class _Flow:
    """Reads { } and [ ] across lines, on behalf of the reader of lines."""

    def __init__(self, lines: _Reader, text: str) -> None:
        self.lines, self.text = lines, text

    def _skip(self) -> str:
        """The next character that says something, on this line or a later one."""
        while True:
            stripped = self.text.lstrip()
            if stripped and not (stripped[0] == "#" and stripped != self.text):
                self.text = stripped
                return stripped[0]
            self.lines.at += 1
            if self.lines.at >= len(self.lines.lines):
                raise self.lines._wrong("a flow collection that does not end")
            self.text = " " + self.lines.lines[self.lines.at]

    def value(self, depth: int) -> Value:
        if depth > DEEPEST:
            raise self.lines._wrong(f"nested deeper than {DEEPEST}")
        opening = self._skip()
        line = self.lines._number
        if opening == "{":
            entries = tuple(self._pair(depth) for _ in self._members("}"))
            return YamlMapping(entries, line)
        if opening == "[":
            items = tuple(self.value(depth + 1) for _ in self._members("]"))
            return YamlSequence(items, line)
        return self._scalar()

    def _members(self, closing: str) -> Iterator[None]:
        """Stops before each member; whoever iterates reads it."""
        self.text = self.text[1:]
        while self._skip() != closing:
            yield
            if self._skip() == ",":
                self.text = self.text[1:]
            elif self.text[0] != closing:
                raise self.lines._wrong(f"no comma and no {closing}")
        self.text = self.text[1:]

    def _pair(self, depth: int) -> Entry:
        line = self.lines._number
        quoted = self._skip() in "\"'"
        key = self._scalar()
        if self._skip() != ":" or not (quoted or self.text[1:2] in ("", " ")):
            raise self.lines._wrong("a key without a value in a flow mapping")
        self.text = self.text[1:]
        if self._skip() in ",}":
            return Entry(key.text, line, Scalar("", line))
        return Entry(key.text, line, self.value(depth + 1))

    def _scalar(self) -> Scalar:
        if self.text[0] in "\"'":
            scalar, self.text = self.lines._quoted(self.text)
            return scalar
        match = _FLOW_SCALAR.match(self.text)
        if match is None:
            raise self.lines._wrong("a scalar that is not understood in a flow collection")
        self.text = self.text[match.end() :]
        if not self.text.strip():
            following = self.lines.lines[self.lines.at + 1 : self.lines.at + 2]
            if following and following[0].strip()[:1] not in (",", "]", "}", ""):
                raise self.lines._wrong("a scalar that runs over several lines")
        return Scalar(match[0].rstrip(), self.lines._number)

    def expect_end(self) -> None:
        if self.text.strip() and not re.match(r"\s+#", self.text):
            raise self.lines._wrong("text after a flow collection")
        self.lines.at += 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith(("- ", "-\t"))
