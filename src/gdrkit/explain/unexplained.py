"""The line that shows best what failed, where no cause of it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gdrkit.explain import cues
from gdrkit.explain.explanation import QuotedLine
from gdrkit.explain.sentences import Place, Sentence
from gdrkit.explain.transcript import TextLine

_FAILS = re.compile(
    r"\b(?:errors?|fatal|fail(?:ed|s|ure)?|undefined|unsupported|cannot|can't|could ?n[o']t|unable"
    r"|denied"
    r"|refused|rejected|not (?:found|supported|available|permitted|implemented)|no such|missing"
    r"|exception"
    r"|assert\w*|invalid|timed out|timeout|aborted|killed|traceback|segmentation fault)\b",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"\b(?:0 errors?|no errors?|errors?[=: ]+0|without errors?)\b", re.IGNORECASE)
MOST_LINES = 5000
"""Lines that are searched at most."""


def unexplained(lines: Iterable[TextLine], said: tuple[Sentence, ...]) -> QuotedLine | None:
    """The first output that reports a failure; else the title or the first sentence that does; else None."""
    for line, _ in zip(lines, range(MOST_LINES), strict=False):
        if (
            line.kind in ("machine", "shown")
            and _FAILS.search(line.text)
            and not _HARMLESS.search(line.text)
        ):
            return QuotedLine(line.number, line.text.strip())
    symptoms = [sentence for sentence in said if cues.is_symptom(sentence.text)]
    titles = [sentence for sentence in symptoms if sentence.place is not Place.BODY]
    for sentence in (*titles, *symptoms):
        return QuotedLine(sentence.line, sentence.text)
    return None
