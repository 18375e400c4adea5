"""A line that a program prints and that means something to us: who predicts it says it, all others hear it.

A template is the line with holes: `{name:pattern}` takes what a regular expression allows, `{module}` and a
few others a name, `{name}` whatever stands there; `{:pattern}` is one without a name. What stands before a
line does not matter.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from gdrkit.formats.module_name import canonical
from gdrkit.messages import errors

_HOLE = re.compile(r"\{(\w*)(?::((?:[^{}]|\{[^{}]*\})*))?\}")
_NAMES = ("module", "symbol", "owner", "namespace")


class MessageTemplate(Struct, frozen=True, eq=False):
    """One line with holes."""

    program: str  # who prints it: kernel, modprobe, systemd, nvidia, nccl, ...
    template: str
    causes: tuple[str, ...] = ()  # codes, likeliest first; none where `{error}` tells, or nothing failed
    source: str = ""
    versions: str = ""  # of the program, where not all print it
    name: str = ""  # what code asks for it by, where somebody does
    module: str = ""  # the module that it is about, where its words imply one
    decides: bool = True  # a single cause is proof: it cannot be something passing, or no fault
    loads: bool = False  # a program that loads modules says it, and names the one it was asked for
    open_end: bool = False  # a sentence may go on behind it
    sample: str = ""  # as somebody saw it, where the holes alone do not make one
    make: Callable[[Match], Any] | None = None  # what such a line establishes, for who collects that

    def say(self, **values: object) -> str:
        """The line, its holes filled."""
        return _HOLE.sub(lambda hole: str(values[hole[1]]) if hole[1] else "", self.template)

    def match(self, text: str, number: int = 0) -> Match | None:
        """What the text says of this line; None if it does not hold it."""
        return self._search(text, number) if _constant(self) in text else None

    def _search(self, text: str, number: int) -> Match | None:
        found = _pattern(self).search(text)
        if found is None:
            return None
        values = found.groupdict()
        if None in values.values():
            values = {name: value for name, value in values.items() if value is not None}
        if "module" in values:
            values["module"] = canonical(values["module"])
        return Match(self, values, text, found[0], number)


class Match(Struct, frozen=True):
    """A message that was found."""

    message: MessageTemplate
    values: Mapping[str, str]  # what stands in the holes; modules have underscores
    text: str
    words: str  # of the text, what the message takes
    number: int = 0  # line in its source

    @property
    def causes(self) -> tuple[str, ...]:
        """Everything that can have caused it."""
        error = self.values.get("error")
        return self.message.causes if error is None else errors.causes(error)


class MessageMatcher:
    """The rows of a catalogue, each under the rarest word that all its lines have."""

    def __init__(self, rows: Iterable[MessageTemplate]) -> None:
        everything = tuple(rows)
        words = [_words(row.template) for row in everything]
        common = Counter(word for mine in words for word in mine)
        self._by_word: dict[str, list[_Entry]] = {}
        self._others: list[_Entry] = []  # without such a word
        for order, (row, mine) in enumerate(zip(everything, words, strict=True)):
            word = min(mine, key=lambda word: (common[word], -len(word)), default="")
            rows_of_word = self._by_word.setdefault(word, []) if word else self._others
            rows_of_word.append((order, _constant(row), row))
        self._known = frozenset(self._by_word)

    def match(self, text: str, number: int = 0) -> Match | None:
        """The first row that a line holds; None if it holds none."""
        held = [entry for entry in self._others if entry[1] in text]
        for word in self._known.intersection(text.split()):
            held += [entry for entry in self._by_word[word] if entry[1] in text]
        if len(held) > 1:
            held.sort()
        for _, _, row in held:
            found = row._search(text, number)
            if found is not None:
                return found
        return None


_Entry = tuple[int, str, MessageTemplate]
"""A row's place, the longest part that stands between its holes, and the row."""


def _constants(template: str) -> list[str]:
    return _HOLE.sub("\0", template).split("\0")


def _words(template: str) -> set[str]:
    """The words between blanks that every such line has. Punctuation is none: it would find too many."""
    return {word for part in _constants(template) for word in re.findall(r"(?<=\s)\S*\w\S*(?=\s)", part)}


@functools.cache
def _constant(row: MessageTemplate) -> str:
    return max(_constants(row.template), key=len)


@functools.cache
def _pattern(row: MessageTemplate) -> re.Pattern[str]:
    """Compiled when the first line has the row's word."""
    template = row.template
    parts, at, seen = [], 0, set()
    for hole in _HOLE.finditer(template):
        name, allowed = hole[1], hole[2]
        parts.append(re.escape(template[at : hole.start()]))
        if name:
            allowed = allowed or (r"[\w-]+" if name in _NAMES else ".*?")
            allowed = f"(?P={name})" if name in seen else f"(?P<{name}>{allowed})"
            seen.add(name)
        parts.append(allowed)
        at = hole.end()
    parts.append(re.escape(template[at:]))
    start = r"(?<![\w-])" if template[0].isalnum() or template.startswith("{module") else ""
    return re.compile(start + "".join(parts) + _end(row, template[at:]), re.MULTILINE)


def _end(row: MessageTemplate, tail: str) -> str:
    if row.open_end:
        return ""
    return r"(?!\w)" if tail else r"(?=$|\n)"
