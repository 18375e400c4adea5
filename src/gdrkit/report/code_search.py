"""Search of the finding codes and the glossary: `gdr codes WORD`."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.report.glossary import GLOSSARY
from gdrkit.report.pages import CodeTitle, page, titles

SHORTEST = 3
"""Letters of a word that is in too many messages to be searched."""


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
    messages = _of_messages(_text_of_error(words))
    found += [
        CodeMatch(rows[code].layer, code, f"{rows[code].title} Message: {message}")
        for code, message in messages.items()
        if code not in named
    ]
    return found or [CodeMatch(row.layer, row.code, row.title) for row in _of_pages(words)]


def _text_of_error(words: str) -> str:
    """The text of an error that is given by its name, such as EFAULT; other words unchanged."""
    from gdrkit.messages.errors import ERRORS

    return next((error.words for error in ERRORS if error.name == words.strip().upper()), words)


MOST_CODES, MOST_TERMS = 4, 2


def _of_pages(words: str) -> list[CodeTitle]:
    """The pages that have the words as they are, those that have them most often first."""
    wanted = " ".join(words.casefold().split())
    if len(wanted) <= SHORTEST:
        return []
    counts = {row: " ".join(page(row.code).casefold().split()).count(wanted) for row in titles()}
    return sorted((row for row in counts if counts[row]), key=lambda row: -counts[row])[:MOST_CODES]


def _of_messages(words: str) -> dict[str, str]:
    """The codes that messages with these words have, each with the first of them."""
    from gdrkit.catalogue import every_message
    from gdrkit.messages.errors import ERRORS

    wanted = " ".join(words.casefold().split())
    texts = [
        (text, error.causes) for error in ERRORS for text in (error.words, error.modprobe, error.insmod)
    ]
    texts += [(row.sample or row.plain, row.causes) for row in every_message()]
    found: dict[str, str] = {}
    for text, causes in texts:
        if len(wanted) > SHORTEST and wanted in text.casefold():
            for code in causes:
                found.setdefault(code, text)
    return found


IN_NAME, IN_TITLE, IN_PAGE, IN_MESSAGE = 2.0, 2.0, 1.5, 0.7
"""What a word counts by its place; in a page less if the page has it once. Chosen by the posts in
tests/explain/posts.py."""
OFTEN = 4
"""Times after which a word of a page counts in full."""
RELATED = 5.0
"""The least score: about two words that few pages have."""


def related(text: str) -> list[str]:
    """The codes to which the words of a text belong, best first, and the terms of the glossary in it.

    A word counts by how rare it is among the pages (the logarithm of their number over that of those that
    have it) times where it stands: in a code, its title, its page, or its messages. The order of words does
    not count: nothing is read of what a person says.
    """
    words = set(_words(text))
    known = _indexed()
    rare = {
        word: math.log(len(known) / count)
        for word in words
        if (count := sum(word in weights for weights in known.values()))
    }
    scores = {
        code: sum(rare[word] * weights[word] for word in rare.keys() & weights.keys())
        for code, weights in known.items()
    }
    best = sorted((code for code in scores if scores[code] >= RELATED), key=lambda code: -scores[code])
    folded = _folded(text)
    terms = [term.name for term in GLOSSARY if _is_named(term.name, folded)]
    return [*best[:MOST_CODES], *terms[:MOST_TERMS]]


@functools.cache
def _indexed() -> dict[str, dict[str, float]]:
    """The weight of each word for each code."""
    from gdrkit.catalogue import every_message

    samples: dict[str, list[str]] = {}
    for message in every_message():
        for code in message.causes[:2]:
            samples.setdefault(code, []).append(message.sample or message.plain)
    found = {}
    for row in titles():
        body = Counter(_words(page(row.code)))
        shorter = 1 + 0.02 * math.sqrt(body.total())  # a long page has many words by chance
        weights = Counter({word: IN_PAGE * min(count, OFTEN) / OFTEN for word, count in body.items()})
        for place, text in ((IN_NAME, row.code), (IN_TITLE, row.title)):
            weights.update(dict.fromkeys(_words(text), place))
        weights.update(dict.fromkeys(_words(" ".join(samples.get(row.code, ()))), IN_MESSAGE))
        found[row.code] = {word: weight / shorter for word, weight in weights.items()}
    return found


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]{2,}", text.casefold())


def _is_named(name: str, text: str) -> bool:
    return (
        len(name) > 2
        and re.search(rf"(?<![a-z0-9]){re.escape(_folded(name))}(?![a-z0-9])", text) is not None
    )


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
