"""The lines with which people avoid a problem: below a sentence that says what solved it, and in a change.

A setting that turns RDMA off is a cause in what fails. In what solved a problem, and in what
a change of a program does or tests, it is the way around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from gdrkit.explain import cues
from gdrkit.explain.sentences import Place, Sentence
from gdrkit.explain.transcript import TextLine

MOST_LINES = 40
"""Lines that a sentence introduces, at most."""

_SOLVED = re.compile(r"\b(?:solved|fixed|resolved|work(?:ed|s)? ?around|work-?arounds?)\b", re.IGNORECASE)
_INTRODUCES = re.compile(
    r":\W*$|\b(?:below|following|these) (?:\w+ )?(?:steps?|commands?|lines?|settings?|variables?)\b"
    r"|\b(?:steps?|commands?|lines?|settings?|variables?) below\b",
    re.IGNORECASE,
)
_DOES = re.compile(
    r"\b(?:test(?:s|ed|ing)?|verif\w+|validat\w+|chang(?:es?|ed)|solution|fix(?:es)?|details)\b",
    re.IGNORECASE,
)
"""Headings of a change below which it says what it does, and how that was tested."""


def ways_around(lines: tuple[TextLine, ...], said: tuple[Sentence, ...]) -> frozenset[int]:
    """The numbers of these lines. Output of a program is none: it shows what was the case."""
    spans = (*_solutions(said), *(_changes(said) if said and cues.is_change(said[0].text) else ()))
    inside = {number for span in spans for number in span}
    return frozenset(line.number for line in lines if line.kind != "machine" and line.number in inside)


def _solutions(said: tuple[Sentence, ...]) -> Iterator[range]:
    """What follows a sentence that introduces what solved the problem, in its post."""
    for index, sentence in enumerate(said):
        text = sentence.text
        if _SOLVED.search(text) and _INTRODUCES.search(text) and not cues.is_guess(text):
            others = (one.line for one in said[index:] if one.post != sentence.post or _is_section(one))
            end = sentence.line + MOST_LINES
            yield range(sentence.line, min(next(others, end), end))


def _changes(said: tuple[Sentence, ...]) -> Iterator[range]:
    """What follows a heading that tells what a change does, up to the next heading."""
    starts = [(one.line, _DOES.search(one.text) is not None) for one in said if _is_section(one)]
    for (start, does), (end, _) in pairwise((*starts, (said[-1].line + MOST_LINES, False))):
        if does:
            yield range(start, end)


def _is_section(sentence: Sentence) -> bool:
    """Whether a sentence is a heading with a mark; a short line with a colon only introduces something."""
    return sentence.place is Place.HEADING and sentence.text.startswith(("#", "**"))
