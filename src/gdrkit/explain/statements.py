"""How people say that a cause is there: which rows of the table a sentence matches.

A sentence names a cause if it has the topic and the state of a row ("ACS", "is enabled"). A sentence that
says what cured the problem names it by the topic and the cure ("ACS", "disabled": "fixed by disabling ACS").
A person's words prove nothing: they open a cause, or rank it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.explain.component_rows import COMPONENT_STATEMENTS
from gdrkit.explain.fabric_rows import FABRIC_STATEMENTS
from gdrkit.explain.program_rows import PROGRAM_STATEMENTS
from gdrkit.explain.statement_rows import STATEMENTS, Statement

FLAGS = re.IGNORECASE | re.ASCII
"""ASCII: a word ends where Chinese characters begin, also without a space."""


EDGE = r"(?:(?<![A-Za-z0-9])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?![A-Za-z0-9]))"
"""Where a name begins or ends in a topic: an underscore ends it, as in MLNX_OFED or NCCL_IB_HCA."""


class Reading(Struct, frozen=True):
    """A statement found in a sentence."""

    code: str
    start: int  # where its state begins, or its topic if it has none
    cured: bool  # it names the cure only: what cured the problem, or what is in place
    context: bool
    bare: bool = False  # the cure is only the topic itself, which denies nothing


def readings(text: str) -> Iterator[Reading]:
    """The statements in a sentence: by the state that it names, else by the cure."""
    for row, (topic, state, cure, unless) in _compiled():
        about = topic.search(text)
        if about is None or (unless is not None and unless.search(text)):
            continue
        found = about if state is None else _of_topic(text, about, state)
        if found is not None:
            yield Reading(row.code, found.start(), cured=False, context=row.context)
        elif cure is not None and (found := _of_topic(text, about, cure)) is not None:
            bare = about.start() <= found.start() < about.end()
            later = cure.search(text, about.end()) if bare else None
            if later is not None and topic.search(later[0]) is None:
                found, bare = later, False
            yield Reading(row.code, found.start(), cured=True, context=row.context, bare=bare)


def _of_topic(text: str, about: re.Match[str], pattern: re.Pattern[str]) -> re.Match[str] | None:
    """The first match of a state that is not about the subject of another clause: "X is on, Y is off"."""
    for found, _ in zip(pattern.finditer(text), range(MOST_MATCHES), strict=False):
        if found.start() >= about.end():
            if _SUBJECT.search(text[about.end() : found.end()]) is None:
                return found
        elif not (
            found.end() <= about.start()
            and any(mark in text[found.end() : about.start()] for mark in ",;")
            and _VERB.match(text[about.end() :])
        ):
            return found
    return None


MOST_MATCHES = 8
_VERB = re.compile(r"\s+(?:\w+ )?(?:is|are|was|were|has|have)\b")
_SUBJECT = re.compile(
    r"[,;]\s(?!(?:it|that|this|which|they|so|but|and|because|what)\b)(?:(?:and|but|the|our|all) )?\S+(?:"
    r" \S+)?"
    r" (?:is|are|was|were)\b",
    re.IGNORECASE,
)
"""Another clause with a subject and a verb of its own."""


_Patterns = tuple[re.Pattern[str], re.Pattern[str] | None, re.Pattern[str] | None, re.Pattern[str] | None]


@functools.cache
def _compiled() -> tuple[tuple[Statement, _Patterns], ...]:
    def one(pattern: str) -> re.Pattern[str] | None:
        return re.compile(pattern, FLAGS) if pattern else None

    return tuple(
        (
            row,
            (
                re.compile(row.topic.replace(r"\b", EDGE), FLAGS),
                one(row.state),
                one(row.cure),
                one(row.unless),
            ),
        )
        for row in (*STATEMENTS, *FABRIC_STATEMENTS, *PROGRAM_STATEMENTS, *COMPONENT_STATEMENTS)
    )
