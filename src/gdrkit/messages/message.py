"""Templates of messages that programs print: fill one in to predict a message, or match text against it.

A template is the message with placeholders: `{name:pattern}` matches a regular expression, `{module}` and a
few others match a name, `{name}` matches any text; `{:pattern}` has no name. Any text may precede a message.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from gdrkit.formats.module_name import canonical
from gdrkit.messages import errors

_PLACEHOLDER = re.compile(r"\{(\w*)(?::((?:[^{}]|\{[^{}]*\})*))?\}")
LINE_CHARACTERS = 4096
"""How much of a line is searched. The kernel prints at most 2048 characters (include/linux/printk.h,
PRINTK_MESSAGE_MAX), NCCL 4096 (src/debug.cc); a longer line was made to keep a reader busy."""

_NAMES = ("module", "symbol", "owner", "namespace")


Effect = Literal["failure", "follows", "harmless"]
"""What a message without a code stands for: a failure of something else than the direct path, one that
follows from an error of another process, or no failure."""


class Meaning(Struct, frozen=True):
    """What a message means that is not about the direct path to GPU memory, and what to do."""

    words: str
    todo: str
    effect: Effect = "failure"


class MessageTemplate(Struct, frozen=True, eq=False):
    """One message with placeholders."""

    program: str  # that prints it: kernel, modprobe, systemd, nvidia, nccl, ...
    template: str
    causes: tuple[
        str, ...
    ] = ()  # codes, likeliest first; () if `{error}` determines them, or nothing failed
    source: str = ""
    versions: str = ""  # of the program, if not all print it
    name: str = ""  # by which code refers to it, if any does
    module: str = ""  # the module that it is about, if its text implies one
    decides: bool = True  # a single cause is certain: not temporary, and never harmless
    loads: bool = False  # printed by a program that loads modules, and names the requested module
    leads: bool = False  # its first cause is what it says itself, or by far the most frequent
    open_end: bool = False  # more text may follow it
    goes_on: bool = False  # the program goes on without what it lacks: another failure has another cause
    sample: str = ""  # an example, if the placeholders alone do not make one
    make: Callable[[Match], Any] | None = None  # makes a record from a match
    meaning: Meaning | None = None  # of a message without a code

    def say(self, **values: object) -> str:
        """The message, with its placeholders filled in."""
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]) if found[1] else "", self.template)

    def match(self, text: str, number: int = 0) -> Match | None:
        """The match of this message in a text; None if the text does not contain it."""
        return self._search(text, number) if _constant(self) in text else None

    def _search(self, text: str, number: int) -> Match | None:
        found = _pattern(self).search(text, 0, LINE_CHARACTERS)
        if found is None:
            return None
        values = found.groupdict()
        if None in values.values():
            values = {name: value for name, value in values.items() if value is not None}
        if "module" in values:
            values["module"] = canonical(values["module"])
        return Match(self, values, text, found[0], number)


class Match(Struct, frozen=True):
    """A message found in a text."""

    message: MessageTemplate
    values: Mapping[str, str]  # of the placeholders; modules have underscores
    text: str
    words: str  # the part of the text that matches
    number: int = 0  # line in its source

    @property
    def causes(self) -> tuple[str, ...]:
        """Codes of all possible causes."""
        error = self.values.get("error")
        return self.message.causes if error is None else errors.causes(error)


class MessageMatcher:
    """Matches lines against a catalogue, indexed by the rarest word of each template."""

    def __init__(self, rows: Iterable[MessageTemplate]) -> None:
        everything = tuple(rows)
        words = [_words(row.template) for row in everything]
        common = Counter(word for own in words for word in own)
        self._by_word: dict[str, list[_Entry]] = {}
        self._others: list[_Entry] = []  # without such a word
        for order, (row, own) in enumerate(zip(everything, words, strict=True)):
            word = min(own, key=lambda word: (common[word], -len(word)), default="")
            rows_of_word = self._by_word.setdefault(word, []) if word else self._others
            rows_of_word.append((order, _constant(row), row))
        self._known = frozenset(self._by_word)

    def match(self, text: str, number: int = 0) -> Match | None:
        """The match of the first row that a line contains; None if it contains none."""
        candidates = [entry for entry in self._others if entry[1] in text]
        for word in self._known.intersection(text.split()):
            candidates += [entry for entry in self._by_word[word] if entry[1] in text]
        if len(candidates) > 1:
            candidates.sort()
        for _, _, row in candidates:
            found = row._search(text, number)
            if found is not None:
                return found
        return None


_Entry = tuple[int, str, MessageTemplate]
"""A row's index in the catalogue, its longest constant part, and the row."""


def _constants(template: str) -> list[str]:
    return _PLACEHOLDER.sub("\0", template).split("\0")


def _words(template: str) -> set[str]:
    """The words between blanks that every such message has. Punctuation alone does not count: it is too
    common."""
    return {word for part in _constants(template) for word in re.findall(r"(?<=\s)\S*\w\S*(?=\s)", part)}


@functools.cache
def _constant(row: MessageTemplate) -> str:
    return max(_constants(row.template), key=len)


@functools.cache
def _pattern(row: MessageTemplate) -> re.Pattern[str]:
    """The regular expression of a row, compiled on first use."""
    template = row.template
    parts, at, seen = [], 0, set()
    for placeholder in _PLACEHOLDER.finditer(template):
        name, allowed = placeholder[1], placeholder[2]
        parts.append(re.escape(template[at : placeholder.start()]))
        if name:
            allowed = allowed or (r"[\w-]+" if name in _NAMES else ".*?")
            allowed = f"(?P={name})" if name in seen else f"(?P<{name}>{allowed})"
            seen.add(name)
        else:
            allowed = f"(?:{allowed})"
        parts.append(allowed)
        at = placeholder.end()
    parts.append(re.escape(template[at:]))
    start = r"(?<![\w-])" if template[0].isalnum() or template.startswith("{module") else ""
    return re.compile(start + "".join(parts) + _end(row, template[at:]), re.MULTILINE)


def _end(row: MessageTemplate, tail: str) -> str:
    if row.open_end:
        return ""
    return r"(?!\w)" if tail else r"(?=$|\n)"
