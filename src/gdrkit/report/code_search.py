"""Search of the finding codes and the glossary: `gdr codes WORD`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.report.glossary import GLOSSARY
from gdrkit.report.pages import titles


class CodeMatch(Struct, frozen=True):
    """A code or a term. `where` is the layer of a code, and "glossary" for a term."""

    where: str
    name: str
    text: str


def search(words: str) -> list[CodeMatch]:
    """The codes and terms that have all words, best first: those with a word in the name come before those
    with it in the title of a code, and these before those with it in the text of a term. Then come the codes
    of messages that contain the words as they are, in the order of their likelihood.

    A word also matches the start of a longer one: `port` matches "ports", but not "supported".
    """
    wanted = [_folded(word) for word in re.findall(r"\w+", words.replace("_", " "))]
    if not wanted:
        return []
    ranked = []
    for match, *places in _entries():
        ranks = [rank for word in wanted if (rank := _rank(word, places)) is not None]
        if len(ranks) == len(wanted):
            ranked.append((sum(ranks), match))
    found = [match for _, match in sorted(ranked, key=lambda row: row[0])]
    named = {match.name for match in found}
    rows = {row.code: row for row in titles()}
    return found + [
        CodeMatch(rows[code].layer, code, f"{rows[code].title} Message: {message}")
        for code, message in _of_messages(words).items()
        if code not in named
    ]


def _of_messages(words: str) -> dict[str, str]:
    """The codes that messages with these words have, each with the first of them."""
    from gdrkit.catalogue import every_message
    from gdrkit.messages.errors import ERRORS

    wanted = " ".join(words.casefold().split())
    texts = [
        (text, error.causes) for error in ERRORS for text in (error.words, error.modprobe, error.insmod)
    ]
    texts += [(row.sample or row.template, row.causes) for row in every_message()]
    found: dict[str, str] = {}
    for text, causes in texts:
        if len(wanted) > 3 and wanted in text.casefold():
            for code in causes:
                found.setdefault(code, text)
    return found


def _entries() -> Iterator[tuple[CodeMatch, str, str, str]]:
    """Each entry with the text of its name, its title and its explanation."""
    for row in titles():
        yield CodeMatch(row.layer, row.code, row.title), row.code, row.title, ""
    for term in GLOSSARY:
        names = " ".join((term.name, *term.also))
        yield CodeMatch("glossary", term.name, term.short or term.text), names, "", term.text


def _rank(word: str, places: list[str]) -> int | None:
    """In which place the word begins a word, the first one best; a whole word is better than its start."""
    for number, place in enumerate(places):
        if match := re.search(rf"(?<![a-z0-9]){re.escape(word)}([a-z0-9]?)", _folded(place)):
            return 2 * number + bool(match[1])
    return None


def _folded(text: str) -> str:
    return text.casefold().replace("_", "-")
