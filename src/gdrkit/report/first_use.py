"""Explain a term of the glossary where a text uses it first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gdrkit.report.glossary import GLOSSARY
from gdrkit.report.terminal import COMMAND, Row

_SHORT = {entry.name: entry.short for entry in GLOSSARY if entry.short}
_NAMES = "|".join(map(re.escape, sorted(_SHORT, key=len, reverse=True)))
_TERM = re.compile(rf"(?<![\w/.-])({_NAMES})(?![\w/=-]|\.\w| \(|: )")
"""A term on its own: not in a code such as peermem-stub, in a path, or before its explanation."""


def explained(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows with a short parenthesis after the first use of each term, but not in a `command`."""
    seen: set[str] = set()
    for row in rows:
        indent, style, words = row[:3]
        if style == COMMAND:
            yield row
            continue
        words = "`".join(
            part if number % 2 else _explained(part, seen) for number, part in enumerate(words.split("`"))
        )
        yield (indent, style, words, row[3]) if len(row) == 4 else (indent, style, words)


def _explained(words: str, seen: set[str]) -> str:
    def first(match: re.Match[str]) -> str:
        name, before = match[1], words[: match.start()]
        if name in seen or before.count("(") > before.count(")"):
            return name  # no parenthesis within another
        seen.add(name)
        return f"{name} ({_SHORT[name]})"

    return _TERM.sub(first, words)
