"""A line that a program prints and that means something to us: said by who predicts it, heard by all others. PURE.

A template has holes: `{module}` takes a name, `{name:pattern}` what a regular expression allows, any other takes
whatever stands there. What stands before a line does not matter; behind it the sentence must be over.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from gdrkit.facts.loaded_modules import canonical

_HOLE = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_NAMES = ("module", "symbol", "owner", "namespace")


class Message(Struct, frozen=True):
    """One line with holes."""

    program: str  # kernel, modprobe, insmod, systemd, talos, depmod, ...
    template: str
    causes: tuple[str, ...] = ()  # codes, most likely first; none for lines that tell of no failure
    name: str = ""  # what code asks for it by, where somebody does
    module: str = ""  # the module that it is about, where its words imply one
    decides: bool = True  # a single cause is proof
    loads: bool = False  # a program that loads modules says it, and names the one it was asked for
    open_end: bool = False  # more may stand behind it
    source: str = ""

    def say(self, **values: object) -> str:
        """The line, its holes filled."""
        return _HOLE.sub(lambda hole: str(values[hole[1]]), self.template)

    def hear(self, text: str) -> Mapping[str, str] | None:
        """What stands in the holes, if the text holds this line; None if not. Modules have underscores."""
        if _constant(self.template) not in text:
            return None
        found = _pattern(self).search(text)
        if found is None:
            return None
        return {k: canonical(v) if k == "module" else v for k, v in found.groupdict().items()}

    @property
    def names_module(self) -> bool:
        return "{module" in self.template


class Match(Struct, frozen=True):
    """A message that was found."""

    message: Message
    values: Mapping[str, str]
    text: str
    number: int = 0  # line in its source


class Matcher:
    """The rows of a catalogue, by a word that each of their lines has."""

    def __init__(self, rows: Iterable[Message]) -> None:
        self.by_word: dict[str, list[tuple[int, Message]]] = {}
        self.others: list[tuple[int, Message]] = []  # of which no word stands between blanks
        for order, row in enumerate(rows):
            word = _word(row.template)
            if word:
                self.by_word.setdefault(word, []).append((order, row))
            else:
                self.others.append((order, row))

    def match(self, text: str, number: int = 0) -> Match | None:
        """The first row that a line holds; None if it holds none."""
        known = self.by_word
        rows = [row for word in text.split() if word in known for row in known[word]]
        for _, row in sorted((*rows, *self.others), key=_order) if rows or self.others else ():
            values = row.hear(text)
            if values is not None:
                return Match(row, values, text, number)
        return None


def _order(row: tuple[int, Message]) -> int:
    return row[0]


def _word(template: str) -> str:
    """The longest word between blanks that every such line has; "" if there is none."""
    words = [
        w for part in _HOLE.sub("\0", template).split("\0") for w in re.findall(r"(?<=\s)\S+(?=\s)", part)
    ]
    return max(words, key=len, default="")


@functools.cache
def _constant(template: str) -> str:
    return max(_HOLE.sub("\0", template).split("\0"), key=len)


@functools.cache
def _pattern(row: Message) -> re.Pattern[str]:
    parts, at, seen = [], 0, set()
    for hole in _HOLE.finditer(row.template):
        parts.append(re.escape(row.template[at : hole.start()]))
        name, given = hole[1], hole[2]
        allowed = given or (r"[\w-]+" if name in _NAMES else ".*?")
        parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>{allowed})")
        seen.add(name)
        at = hole.end()
    tail = row.template[at:]
    parts.append(re.escape(tail))
    last = row.template[-1]
    end = (
        ""
        if row.open_end
        else r"(?=$|\n)"
        if not tail
        else r"(?!\w)"
        if last.isalnum() or last != " "
        else ""
    )
    start = r"(?<![\w-])" if row.template[:1].isalnum() or row.template[0] == "{" else ""
    return re.compile(start + "".join(parts) + end, re.MULTILINE)
