"""Templates of messages that programs print: fill one in to predict a message, or match text against it.

A template is the message with placeholders: `{name:pattern}` matches a regular expression, `{module}` and a
few others match a name, `{name}` matches any text; `{:pattern}` has no name. Any text may precede a message.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from gdrkit.formats.module_name import canonical
from gdrkit.formats.regex import regex
from gdrkit.formats.required_literals import required_literals
from gdrkit.messages import errors

_PLACEHOLDER = regex(r"\{(\w*)(?::((?:[^{}]|\{[^{}]*\})*))?\}")
LINE_CHARACTERS = 4096
"""How much of a line is searched. The kernel prints at most 2048 characters (include/linux/printk.h,
PRINTK_MESSAGE_MAX), NCCL 4096 (src/debug.cc); a longer line was made to keep a reader busy."""

_NAMES = ("module", "symbol", "owner", "namespace")


Effect = Literal["failure", "state", "follows", "aside", "harmless"]
"""What a message without a code stands for: a failure of something else than the direct path, the state of a
pod for which its log has the reason, a failure that follows from an error of another process, what decides
nothing about GPU memory and the network, or no problem."""
DECIDES_NOTHING = "decides nothing about GPU memory and the network"
"""How a message says so of what is aside."""


class Meaning(Struct, frozen=True):
    """What a message means that is not about the direct path to GPU memory, and what to do."""

    words: str
    todo: str
    effect: Effect = "failure"
    after: tuple[str, ...] = ()  # codes that bring it about: if one is the first cause, it is the answer
    brings: tuple[str, ...] = ()  # codes that it brings about: they do not count as causes then


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
    hides_error: bool = False  # it does not say with which error a call failed: more causes than these fit
    states: bool = False  # it says what is used, and of nothing that it failed
    goes_on: bool = False  # the program goes on without what it lacks: another failure has another cause
    follows: str = ""  # the program, or message, whose earlier line has the cause of this one if it fails
    sample: str = ""  # an example, if the placeholders alone do not make one
    make: Callable[[Match], Any] | None = None  # makes a record from a match
    meaning: Meaning | None = None  # of a message without a code

    def say(self, **values: object) -> str:
        """The message, with its placeholders filled in."""
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]) if found[1] else "", self.template)

    @property
    def plain(self) -> str:
        """The message as a reader sees it: each value is its name, and what has no name is left out."""
        return _PLACEHOLDER.sub(lambda found: f"<{found[1]}>" if found[1] else "", self.template)

    def match(self, text: str, number: int = 0) -> Match | None:
        """The match of this message in a text; None if the text does not contain it."""
        return self._search(text, number) if _constant(self) in text else None

    def _search(self, text: str, number: int) -> Match | None:
        found = _pattern(self).search(text, 0, LINE_CHARACTERS)
        if found is None:
            return None
        values = {name: value for name, value in found.groupdict().items() if value is not None}
        begins = found.start(_BEGINNING) if values.pop(_BEGINNING, None) is not None else found.start()
        if "module" in values:
            values["module"] = canonical(values["module"])
        return Match(self, values, text, text[begins : found.end()], number)


class Match(Struct, frozen=True):
    """A message found in a text."""

    message: MessageTemplate
    values: Mapping[str, str]  # of the placeholders; modules have underscores
    text: str
    words: str  # the part of the text that matches
    number: int = 0  # line in its source

    def filled(self, text: str) -> str:
        """A text with the values in place of their names in braces."""
        for name, value in self.values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

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
        self._others: list[tuple[str, _Entry]] = []  # without such a word, by a string that they have
        for order, (row, own) in enumerate(zip(everything, words, strict=True)):
            word = min(own, key=lambda word: (common[word], -len(word)), default="")
            entry = order, _constant(row), row
            if word:
                self._by_word.setdefault(word, []).append(entry)
            else:
                self._others += [(literal, entry) for literal in _literals(row)]
        self._known = frozenset(self._by_word)

    def constants(self) -> Iterator[tuple[str, str]]:
        """What the messages of a row have: a word between blanks, or "", and a string; for some rows one of
        several strings."""
        for word, entries in self._by_word.items():
            for _, constant, _ in entries:
                yield word, constant
        for literal, _ in self._others:
            yield "", literal

    def match(self, text: str, number: int = 0) -> Match | None:
        """The match of the first row that a line contains; None if it contains none."""
        candidates = [entry for literal, entry in self._others if literal in text]
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


TELLING_CHARACTERS = 6
"""Length of a constant part that few other lines have."""


def _literals(row: MessageTemplate) -> tuple[str, ...]:
    """Strings of which every such message has one; the empty string if none is certain."""
    constant = _constant(row)
    if len(constant) >= TELLING_CHARACTERS:
        return (constant,)
    return required_literals(_expression(row)) or ("",)


@functools.cache
def _pattern(row: MessageTemplate) -> re.Pattern[str]:
    """The regular expression of a row, compiled on first use; its group _BEGINNING, if it has one, is empty
    and marks where the message begins."""
    return re.compile(_anchored(_parts(row)) or _expression(row), re.MULTILINE)


_BEGINNING = "_beginning"


class _Part(Struct, frozen=True):
    """A piece of the regular expression of a row."""

    expression: str
    fixed: bool = False  # a constant or the name of a module: from one place it has one length
    constant: bool = False
    gap: str = ""  # any text: "lazy" or "greedy"
    first: str = ""  # what a gap begins with


def _expression(row: MessageTemplate) -> str:
    return "".join(part.expression for part in _parts(row))


_GAP = regex(r"(?P<first>(?:\\S)?)\.(?P<some>[*+])(?P<lazy>\??)")
"""A placeholder for any text, which may have to be long, or to begin with something else than a blank."""


def _parts(row: MessageTemplate) -> tuple[_Part, ...]:
    template = row.template
    start = r"(?<![\w-])" if template[0].isalnum() or template.startswith("{module") else ""
    parts, at, seen = [_Part(start, fixed=True)], 0, set()
    for placeholder in _PLACEHOLDER.finditer(template):
        name, allowed = placeholder[1], placeholder[2]
        parts.append(_constant_part(template[at : placeholder.start()]))
        of_module = not allowed and name in _NAMES
        allowed = allowed or (r"[\w-]+" if of_module else ".*?")
        gap = None if name in seen else _GAP.fullmatch(allowed)
        if name:
            allowed = f"(?P={name})" if name in seen else f"(?P<{name}>{allowed})"
            seen.add(name)
        else:
            allowed = f"(?:{allowed})"
        parts.append(_gap_part(allowed, gap) if gap else _Part(allowed, fixed=of_module))
        at = placeholder.end()
    parts += [_constant_part(template[at:]), _Part(_end(row, template[at:]))]
    return tuple(part for part in parts if part.expression)


def _constant_part(text: str) -> _Part:
    return _Part(re.escape(text), fixed=True, constant=True)


def _gap_part(expression: str, gap: re.Match[str]) -> _Part:
    first = gap["first"] + ("." if gap["some"] == "+" else "")
    return _Part(expression, gap="lazy" if gap["lazy"] else "greedy", first=first)


def _anchored(parts: tuple[_Part, ...]) -> str:
    """The expression of a row that begins with constants or modules and goes on with any text; else "".

    In a line, such a message is where its beginning first is, or nowhere: any text that follows a later
    beginning also follows the first. The same holds for a constant between two gaps. No other place is
    tried, so that a line made of beginnings does not take long.
    """
    at = next((index for index, part in enumerate(parts) if not part.fixed), 0)
    if not parts[at].gap:
        return ""
    beginning = "".join(part.expression for part in parts[:at])
    found = [f"^(?>.*?(?P<{_BEGINNING}>){beginning}{_ahead(parts[at])})"]
    while _are_gaps_around_constant(parts[at : at + 3]):
        found.append(f"(?>{parts[at].expression}{parts[at + 1].expression}{_ahead(parts[at + 2])})")
        at += 2
    return "".join((*found, *(part.expression for part in parts[at:])))


def _are_gaps_around_constant(parts: tuple[_Part, ...]) -> bool:
    """Whether a constant ends a gap as soon as it can, and another gap follows."""
    return len(parts) == 3 and parts[0].gap == "lazy" and parts[1].constant and bool(parts[2].gap)


def _ahead(gap: _Part) -> str:
    return f"(?={gap.first})" if gap.first else ""


def _end(row: MessageTemplate, tail: str) -> str:
    if row.open_end:
        return ""
    return r"(?!\w)" if tail else r"(?=$|\n)"
