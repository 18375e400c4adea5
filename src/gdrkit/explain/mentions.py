"""Lines that people's words leave open: causes that they name, hardware they mention, errors they quote.

They prove nothing. Every such line is marked as claimed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from gdrkit import catalogue
from gdrkit.explain import cues, negation
from gdrkit.explain.claims import Claim, Stance
from gdrkit.explain.explanation import QUOTED, UNUSUAL, OpenLine
from gdrkit.explain.facts import cause_of
from gdrkit.explain.lines import is_advice
from gdrkit.explain.log_events import events
from gdrkit.explain.statement_rows import HARDWARE
from gdrkit.explain.statements import readings
from gdrkit.explain.transcript import TextLine

MAX_MENTIONS = 8
"""Mentions that are listed at most: a text with more is documentation, not a report of one problem."""

MAX_QUOTED = 20_000
"""Lines of people and of unrecognised output that are searched for errors."""

MAX_READ = 500
"""Lines of unrecognised output that are read as words."""

UNCLAIMED = (Stance.ADVISED, Stance.CONTEXT, Stance.DENIED)
"""How a person mentions a cause without saying that it is there."""

INLINE_CODE = re.compile(r"`([^`]{8,400})`")
_FAILURE = re.compile(
    r"error|warn|fail|disabled|too low|not supported|unsupported|cannot|refused|denied|unable|invalid"
    r"|incompatible",
    re.I,
)


def mentioned(
    lines: Iterable[TextLine], claims: Iterable[Claim], established: set[str]
) -> tuple[OpenLine, ...]:
    """The causes that people name, and the errors that they quote, each once."""
    found: dict[tuple[str, ...], OpenLine] = {}
    strongest = sorted(claims, key=lambda claim: list(Stance).index(claim.stance))
    for claim in strongest:
        if claim.stance not in UNCLAIMED and claim.code not in established:
            found.setdefault((claim.code,), _of_claim(claim))
    written = tuple(lines)
    dismissed = {line.codes for line in quoted_errors(filter(_is_dismissed, written))}
    people = {line.number for line in written if line.kind in ("prose", "quoted")}
    for line in quoted_errors(written):
        if line.codes in dismissed and line.line in people:
            continue
        known = found.get(line.codes)
        if not established & set(line.codes) and (known is None or (line.printed and not known.printed)):
            found[line.codes] = line
    return tuple(sorted(tuple(found.values())[:MAX_MENTIONS], key=lambda line: line.line))


def _is_dismissed(line: TextLine) -> bool:
    """Whether a person says of what a line quotes that it does not matter."""
    return line.kind in ("prose", "quoted") and cues.is_futile(line.text)


def quoted_errors(lines: Iterable[TextLine]) -> Iterator[OpenLine]:
    """Errors in sentences, quotations and unrecognised output."""
    searched = (line for line in lines if line.kind in ("prose", "quoted", "shown") or line.cut)
    words = MAX_READ
    for line, _ in zip(searched, range(MAX_QUOTED), strict=False):
        if line.kind in ("prose", "quoted"):
            if not is_advice(line.text):
                yield from _in_sentence(line)
        elif line.kind == "shown" or not events((line,)):
            words -= 1
            yield from _printed(line) or (_worded(line) if words > 0 else ())


def _printed(line: TextLine) -> tuple[OpenLine, ...]:
    """A message of the catalogue in unrecognised output."""
    for event in events((TextLine(line.number, line.text, "machine"),)):
        return (_open(line, event.codes, UNUSUAL, event.leads),)
    match = catalogue.match(line.text)
    if match is None or not match.causes:
        return ()
    return (_open(line, match.causes, UNUSUAL, match.message.leads),)


def _worded(line: TextLine) -> Iterator[OpenLine]:
    """Hardware in unrecognised output, or a failure in words that name a cause."""
    hardware = not line.text.startswith("|") and _hardware_words().search(line.text) is not None
    if not hardware and not _FAILURE.search(line.text):
        return
    for reading in readings(line.text):
        if reading.context or reading.cured:
            continue
        if reading.code not in _hardware():
            if _FAILURE.search(line.text):
                yield _open(line, (reading.code,), "the program is not known to gdr")
        elif hardware:
            yield _open(line, (reading.code,), "mentioned; no output shows it")


@functools.cache
def _hardware_words() -> re.Pattern[str]:
    return re.compile("|".join(row.topic for row in HARDWARE[:2]))


@functools.cache
def _hardware() -> frozenset[str]:
    return frozenset(row.code for row in HARDWARE[:2])


def _in_sentence(line: TextLine) -> Iterator[OpenLine]:
    """An error within a sentence, preferably one in inline code, where it is quoted as it was printed."""
    for words in (*INLINE_CODE.findall(line.text), line.text):
        event = next(iter(events((TextLine(line.number, words.strip(" `"), "machine"),))), None)
        start = line.text.find(words)
        if event is not None and not (
            negation.is_negated(line.text, start) or negation.is_avoided(line.text, start)
        ):
            yield _open(line, event.codes, QUOTED, event.leads)
            return


def _of_claim(claim: Claim) -> OpenLine:
    note = (
        "a person mentions it; no output shows it"
        if claim.hardware
        else "the text says so; no output shows it"
    )
    line = TextLine(claim.sentence.line, claim.sentence.text, "prose")
    return _open(line, (claim.code,), note)


def _open(line: TextLine, codes: tuple[str, ...], note: str, leads: bool = False) -> OpenLine:
    return OpenLine(
        line=line.number,
        text=line.text.strip(),
        count=1,
        subject="",
        causes=tuple(cause_of(code, "") for code in codes),
        ruled_out=(),
        note=note,
        claimed=True,
        leads=leads,
    )
