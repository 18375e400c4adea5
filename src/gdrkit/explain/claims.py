"""What people say in a text: causes that they name, hardware that they mention, errors that they quote."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.explain import cues, negation, outcomes
from gdrkit.explain.lines import is_advice, is_command
from gdrkit.explain.replies import is_confirmed, is_refuted
from gdrkit.explain.sentences import Place, Sentence
from gdrkit.explain.statement_rows import HARDWARE
from gdrkit.explain.statements import Reading, readings

HARDWARE_CODES = frozenset(row.code for row in HARDWARE)


class Stance(enum.StrEnum):
    """How a person means what a sentence says; the strongest first."""

    FOUND = "found"  # named as the cause, or as what cured the problem
    TITLE = "title"  # in the title or a heading
    SAID = "said"
    REMEDY = "remedy"  # what it names should cure the problem, but was not tried
    ASKED = "asked"  # a question or a guess
    CONTEXT = "context"  # makes a cause likelier that something else points to
    ADVISED = "advised"  # an instruction, or what holds in general
    DENIED = "denied"  # is not there, or its cure had no effect


class Claim(Struct, frozen=True):
    """A cause that a person names. It proves nothing."""

    code: str
    sentence: Sentence
    stance: Stance
    confirmed: bool = False  # a reply says that it was the cause, or the cure

    @property
    def hardware(self) -> bool:
        """Whether it only mentions hardware that has a limit."""
        return self.code in HARDWARE_CODES


def claims(found: tuple[Sentence, ...]) -> tuple[Claim, ...]:
    """Every cause that the sentences of a text name or deny, in order."""
    return tuple(dict.fromkeys(claim for index in range(len(found)) for claim in _in(found, index)))


def _in(found: tuple[Sentence, ...], index: int) -> Iterator[Claim]:
    """The causes in a sentence. One that names only a cure says that it is in place: a denial."""
    sentence = found[index]
    confirmed = is_confirmed(found, index)
    stance = Stance.FOUND if confirmed else _stance(found, index)
    futile = cues.is_futile(sentence.text) or _is_futile_after(found, index)
    futile = futile or (stance in UNTRIED and is_refuted(found, index))
    table = sentence.text.startswith("|")  # a row may be about any machine
    for reading in _readings(found, index, stance):
        if table and reading.code in HARDWARE_CODES:
            continue
        if futile and (reading.cured or stance in UNTRIED or cues.is_futile(sentence.text)):
            yield Claim(reading.code, sentence, Stance.DENIED)
        elif negation.is_example(sentence.text, reading.start):
            yield Claim(reading.code, sentence, Stance.ADVISED)
        elif reading.cured and negation.is_undone(sentence.text, reading.start):
            yield Claim(reading.code, sentence, stance)
        elif reading.cured and stance not in (Stance.FOUND, Stance.REMEDY):
            if stance in (Stance.TITLE, Stance.SAID) and not (reading.context or reading.bare):
                yield Claim(reading.code, sentence, Stance.DENIED)
        elif negation.is_negated(sentence.text, reading.start) or (
            not reading.cured and negation.is_avoided(sentence.text, reading.start)
        ):
            yield Claim(reading.code, sentence, Stance.DENIED)
        else:
            meant = Stance.CONTEXT if reading.context else stance
            yield Claim(reading.code, sentence, meant, confirmed and not reading.context)


UNTRIED = (Stance.REMEDY, Stance.ASKED, Stance.ADVISED)
"""What a reply can refute."""


def _readings(found: tuple[Sentence, ...], index: int, stance: Stance) -> tuple[Reading, ...]:
    """The causes in a sentence. What cured the problem may be named in the sentence before it, or advised
    in the post before it."""
    text = found[index].text
    own = tuple(readings(text))
    if own or stance is not Stance.FOUND or not cues.is_definite(text) or _REASON_FOLLOWS.match(text):
        return own
    named = (
        found[index - 1 : index] if index and found[index - 1].paragraph == found[index].paragraph else ()
    )
    named = (*_advised_before(found, index), *named)
    before = readings(" ".join((*(sentence.text for sentence in named), text))) if named else ()
    return tuple(replace(reading, start=0) for reading in before if reading.cured)


def _advised_before(found: tuple[Sentence, ...], index: int) -> tuple[Sentence, ...]:
    """What the post before asks or advises, if a sentence refers to it."""
    text, post = found[index].text, found[index].post
    return tuple(
        one
        for one in found[:index]
        if post and one.post == post - 1 and _is_advice(one.text) and outcomes.refers_back(text, one.text)
    )[-MOST_ADVICE:]


MOST_ADVICE = 4
"""Sentences of advice that a reply refers to, at most."""


def _is_advice(text: str) -> bool:
    return cues.is_guess(text) or cues.is_remedy(text) or cues.is_instruction(text)


def _stance(found: tuple[Sentence, ...], index: int) -> Stance:
    sentence = found[index]
    if is_under_a_cause(found, index):
        return Stance.FOUND
    if cues.is_guess(sentence.text) or cues.is_habit(sentence.text):
        return Stance.ASKED
    if cues.is_general(sentence.text):
        return Stance.ADVISED
    if cues.names_a_cause(sentence.text) or _is_named_after(found, index):
        return Stance.FOUND
    if cues.is_remedy(sentence.text):
        return Stance.REMEDY
    if (
        is_command(sentence.text)
        or cues.is_instruction(sentence.text)
        or is_advice(sentence.text)
        or cues.is_plan(sentence.text)
    ):
        return Stance.ADVISED
    above = _heading(found, index)
    if cues.is_attempt(above) or cues.is_release(above) or cues.is_release(found[0].text):
        return Stance.ADVISED
    if sentence.place is Place.BODY:
        return Stance.SAID
    return Stance.ADVISED if cues.is_change(sentence.text) else Stance.TITLE


_BACK = re.compile(r"^\W*(?:yes,? |ok,? |indeed,? )?(?:that|this|it)\b", re.IGNORECASE)


_REASON_FOLLOWS = re.compile(
    r"^\W*(?:that|this|it)(?:'s| is| was)? (?:\w+ )?(?:because|due to|caused by|as a result|comes? from)\b",
    re.IGNORECASE,
)
"""What the next sentence gives the reason of is not the cause: "That is because ..." """


def _is_named_after(found: tuple[Sentence, ...], index: int) -> bool:
    """Whether the next sentence makes a sentence the cause: "that was the issue"."""
    after = following(found, index)
    if after is None or not cues.names_a_cause(after.text):
        return False
    if not _BACK.match(after.text) and not _refers_to(after, found[index]):
        return False
    if _REASON_FOLLOWS.match(after.text):
        return False
    return not (cues.is_guess(after.text) or cues.is_futile(after.text))


def _refers_to(after: Sentence, before: Sentence) -> bool:
    """Whether a sentence says that a change helped, of what the one before it names: "After correcting it
    the job ran." """
    same = after.paragraph == before.paragraph
    return same and outcomes.is_changed(after.text) and outcomes.refers_back(after.text, before.text)


def _is_futile_after(found: tuple[Sentence, ...], index: int) -> bool:
    """Whether the next sentence says that it had no effect: "No change." """
    after = following(found, index)
    return after is not None and len(after.text.split()) <= FEW_WORDS and cues.is_futile(after.text)


FEW_WORDS = 8
"""Words of a sentence that only says how another one turned out, at most."""


def following(found: tuple[Sentence, ...], index: int) -> Sentence | None:
    """The next sentence; None after the last."""
    return found[index + 1] if index + 1 < len(found) else None


def _heading(found: tuple[Sentence, ...], index: int) -> str:
    """The last heading above a sentence; "" if there is none."""
    above = (one.text for one in reversed(found[:index]) if one.place is Place.HEADING)
    return next(above, "")


def is_under_a_cause(found: tuple[Sentence, ...], index: int) -> bool:
    """Whether the heading above a sentence says that the cause follows."""
    before = found[index - 1] if index else None
    while before is not None and before.paragraph == found[index].paragraph and index > 1:
        index -= 1
        before = found[index - 1]
    if before is None or before.place is not Place.HEADING or cues.is_guess(before.text):
        return False
    return cues.names_a_cause(before.text)
