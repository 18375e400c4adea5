"""The answer of `gdr explain` in short: the likeliest cause, how sure, what to do, what else it could be.

One cause is named only if the text points to it: outputs prove it, a line has no other cause, or people name
it. If a line has several causes and nothing ranks them, the answer says what failed and asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from gdrkit.explain import cues, slow, subject
from gdrkit.explain.claims import Claim, Stance
from gdrkit.explain.explanation import (
    SET,
    WENT_ON,
    Answer,
    AnswerKind,
    OpenLine,
    OtherFailure,
    QuotedLine,
    RankedCause,
    Sureness,
    TextMachine,
)
from gdrkit.explain.otherwise import OtherLine
from gdrkit.explain.ranking import BY_LINE, NOTE, STANCES, Candidate, brings_about
from gdrkit.explain.reasons import Reason, stated_reason
from gdrkit.explain.sentences import Sentence
from gdrkit.explain.subject import Topics
from gdrkit.explain.told import is_told
from gdrkit.explain.transcript import TextLine
from gdrkit.explain.unexplained import reports_failure, unexplained
from gdrkit.messages import elsewhere
from gdrkit.programs import proofs
from gdrkit.report.pages import code_page

NAMED = 4.0
"""Weight from which a cause is named: a sentence that says it, or a line that leaves no other."""

ONLY = 2.0
"""Weight from which the only cause of a text is named: a person asks about it."""

FOUND_BY_PERSON = STANCES[Stance.FOUND]

MAX_OTHERS = 5


def answer(
    lines: tuple[TextLine, ...],
    said: tuple[Sentence, ...],
    named: tuple[Claim, ...],
    machines: tuple[TextMachine, ...],
    found: tuple[Candidate, ...],
    about: Topics,
    other: OtherLine | None,
) -> Answer:
    """The answer to a text, from its sentences, what they name, its machines, its ranked causes, and
    the line about something else that weighs most."""
    printed = other is not None and other.line.kind == "machine"
    proven = any(machine.established for machine in machines)
    asks = other is None and _reports_nothing(said, named, machines)
    if not (printed or proven) and (asks or subject.explains(lines, said)):
        return _documentation(said, named)
    if other is not None and _leads(other, found) and not (other.harmless and _fails(lines)):
        return _elsewhere(other, found, stated_reason(said, confirmed=True))
    reason = stated_reason(said)
    told = bool(found) and (found[0].printed or is_told(found[0], named, said, about))
    if told and _is_named(found) and not _is_outweighed(found[0], reason, named):
        return _cause(found, machines)
    if reason is not None and (reason.says_why or not found or found[0].weight <= NOTE):
        return _stated(reason, found)
    if about.foreign:
        return _foreign(about, found)
    failing = unexplained(lines, said)
    if found and (found[0].weight > NOTE or failing is None):
        return _several(found, about)
    return _slow(said) or _working(machines, failing) or _nothing(about, failing, found)


def _reports_nothing(
    said: tuple[Sentence, ...], named: tuple[Claim, ...], machines: tuple[TextMachine, ...]
) -> bool:
    """Whether causes are named, but no sentence says and no line shows that something fails: a question
    or a proposal. Hardware is an answer to a question all the same."""
    meant = [claim for claim in named if claim.stance in REPORTED or claim.hardware]
    failing = {line.codes for machine in machines for line in machine.open}
    if any(not line.claimed for machine in machines for line in machine.open):
        return False
    if not named or meant or failing - {(claim.code,) for claim in named}:
        return False
    return not any(cues.is_symptom(sentence.text) for sentence in said)


REPORTED = (Stance.FOUND, Stance.TITLE, Stance.SAID, Stance.REMEDY)
"""How people name what is the case."""


def _is_outweighed(first: Candidate, reason: Reason | None, named: tuple[Claim, ...]) -> bool:
    """Whether the text itself says what the root cause is, for which there is no code, and the first cause
    is only mentioned."""
    if reason is None or not first.claimed or first.weight >= FOUND_BY_PERSON:
        return False
    return cues.names_the_cause(reason.sentence.text) and not any(
        claim.sentence == reason.sentence and claim.stance is not Stance.DENIED for claim in named
    )


def standing(found: tuple[Claim, ...], machines: Iterable[TextMachine]) -> tuple[Claim, ...]:
    """The claims that no output of the same machine, or of one without a name, contradicts."""
    cleared = {(machine.name, code) for machine in machines for code in machine.cleared}
    return tuple(
        claim for claim in found if not {("", claim.code), (claim.sentence.host, claim.code)} & cleared
    )


def _leads(other: OtherLine, found: tuple[Candidate, ...]) -> bool:
    """Whether a line about something else weighs more than every cause, or reads the same line better."""
    if not found or other.weight > found[0].weight:
        return True
    same = other.line.number in {line.line for line in found[0].lines}
    return same and other.weight >= BY_LINE


def _fails(lines: tuple[TextLine, ...]) -> bool:
    """Whether an output reports a failure that is not one of those known to be harmless."""
    return any(
        line.kind == "machine"
        and reports_failure(line)
        and ((known := elsewhere.match(line.text)) is None or known.kind != "harmless")
        for line in lines
    )


def _is_named(found: tuple[Candidate, ...]) -> bool:
    if found[0].code in GENERIC and not found[0].said and found[0].sureness is not Sureness.CERTAIN:
        return False
    return found[0].weight >= NAMED or (len(found) == 1 and found[0].said and found[0].weight >= ONLY)


GENERIC = ("memory-not-registrable", "gpu-unsupported", "init-failed", "dependency-failed")
"""Codes for failures whose reason is open: a failing line alone does not make one the answer."""


# -- the kinds of answers ------------------------------------------------------------------------------


def _cause(found: tuple[Candidate, ...], machines: tuple[TextMachine, ...]) -> Answer:
    first = found[0]
    title, todo = code_page(first.code)
    unexplained = tuple(islice(_other_failures(found, machines), MAX_OTHERS))
    apart = {cause.code for failure in unexplained for cause in failure.causes} - _shared(found, machines)
    return Answer(
        kind=AnswerKind.CAUSE,
        sentence=title if first.printed else f"The text says: {title}",
        cause=first.code,
        subject=first.subject,
        machine=first.machine,
        sureness=first.sureness,
        claimed=first.claimed,
        lines=first.lines,
        now=_steps(todo),
        others=_others(one for one in found[1:] if one.code not in apart),
        besides=unexplained,
    )


def _other_failures(
    found: tuple[Candidate, ...], machines: tuple[TextMachine, ...]
) -> Iterator[OtherFailure]:
    """The failing lines that the first cause does not explain, with the causes that the text leaves them."""
    weights = {one.code: one.weight for one in found}
    for machine in machines:
        for line in machine.open:
            codes = sorted(set(line.codes) & set(weights), key=lambda code: -weights[code])
            if codes and _fails_alone(line) and not _explains(found[0].code, line):
                causes = tuple(RankedCause(code, code_page(code)[0], line.line) for code in codes)
                yield OtherFailure(QuotedLine(line.line, line.text), causes[:MAX_OTHERS])


def _fails_alone(line: OpenLine) -> bool:
    """Whether a program printed a line because something failed, and not only because it was set so."""
    return not line.claimed and line.note not in (WENT_ON, SET)


def _explains(code: str, line: OpenLine) -> bool:
    return any(code == other or brings_about(code, other) for other in line.codes)


def _shared(found: tuple[Candidate, ...], machines: tuple[TextMachine, ...]) -> set[str]:
    """The causes of the lines that the first one explains: alternatives to it."""
    lines = (line for machine in machines for line in machine.open if _explains(found[0].code, line))
    return {code for line in lines for code in line.codes} | {one.code for one in found if one.said}


def _steps(todo: str) -> tuple[str, ...]:
    """The paragraphs of a section, and each item of a list in it."""
    parts = (part for paragraph in todo.split("\n\n") for part in re.split(r"\n(?=- )", paragraph))
    return tuple(" ".join(part.split()) for part in parts if part)


def _others(found: Iterable[Candidate]) -> tuple[RankedCause, ...]:
    rest = list(found)[:MAX_OTHERS]
    return tuple(
        RankedCause(one.code, code_page(one.code)[0], one.lines[0].line if one.lines else None)
        for one in rest
    )


def _plain(kind: AnswerKind, sentence: str, **more: object) -> Answer:
    values: dict[str, object] = {
        "cause": None, "subject": "", "machine": "", "sureness": Sureness.POSSIBLE, "claimed": False,
        "lines": (), "now": (), "others": (), "besides": (),
    }  # fmt: skip
    return Answer(kind=kind, sentence=sentence, **{**values, **more})  # type: ignore[arg-type]


def _elsewhere(other: OtherLine, found: tuple[Candidate, ...], reason: Reason | None) -> Answer:
    """The meaning of a line, and why it was so, if a person found that out."""
    line = other.line
    told = "" if reason is None or other.harmless else f" {IN_ITS_WORDS}: {reason.text}"
    return _plain(
        AnswerKind.HARMLESS if other.harmless else AnswerKind.ELSEWHERE,
        f"{other.means}.{told}",
        sureness=Sureness.LIKELY,
        claimed=line.kind != "machine",
        lines=(QuotedLine(line.number, line.text.strip()),),
        now=(f"{other.todo}.",),
        others=_others(found),
    )


IN_ITS_WORDS = "The text gives the reason in its own words"


DESCRIBED = "The text describes a defect in its own words"


def _stated(reason: Reason, found: tuple[Candidate, ...]) -> Answer:
    return _plain(
        AnswerKind.STATED,
        f"{IN_ITS_WORDS if reason.says_why else DESCRIBED}: {reason.text}",
        claimed=True,
        lines=(QuotedLine(reason.sentence.line, reason.sentence.text),),
        others=_others(found),
    )


FAR = ("pair-cross-socket", "pair-distant")
"""Distances in a topology, which fail at nothing themselves."""


def _several(found: tuple[Candidate, ...], about: Topics) -> Answer:
    lines = found[0].lines[:1]
    between = ": it does not decide between these causes" if len(found) > 1 else ""
    shown = f"The text shows what failed, but not why{between}."
    if not any(one.printed for one in found):
        topic = f"The text is about {_about(about)}."
        shown = f"{topic} No output in it shows the cause, and its words do not decide."
    elif found[0].code in FAR:
        shown = "The text shows GPUs that are far from their NIC, but not whether that matters here."
    return _plain(
        AnswerKind.SEVERAL,
        shown,
        claimed=found[0].claimed,
        lines=lines,
        others=_others(found),
    )


def _slow(said: tuple[Sentence, ...]) -> Answer | None:
    """That the direct path is slow, with what slows it down; None if the text does not say so."""
    sentence = slow.slow(said)
    if sentence is None:
        return None
    return _plain(
        AnswerKind.SEVERAL,
        "The text says that the direct path works and is slow, but shows nothing that slows it down.",
        claimed=True,
        lines=(QuotedLine(sentence.line, sentence.text),),
        now=slow.STEPS,
        others=tuple(RankedCause(code, code_page(code)[0], None) for code in slow.CAUSES),
    )


def _working(machines: Iterable[TextMachine], failing: QuotedLine | None) -> Answer | None:
    """That NCCL accesses GPU memory directly; what fails all the same is something else, and is quoted."""
    for machine in machines:
        for fact in machine.known:
            if fact.name == "NCCL channels" and not fact.value.startswith("0 ") and fact.line is not None:
                shown = "What fails here is none of the failures whose cause gdr knows, but"
                if failing is None:
                    shown = "The text shows no problem, and"
                return _plain(
                    AnswerKind.WORKING,
                    f"{shown} NCCL accesses GPU memory directly: {fact.value}.",
                    sureness=Sureness.CERTAIN,
                    lines=(QuotedLine(fact.line, fact.text), *(() if failing is None else (failing,))),
                )
    return _in_use(machines, failing)


def _in_use(machines: Iterable[TextMachine], failing: QuotedLine | None) -> Answer | None:
    """What lines of programs show to be in use, where nothing else decides: a proof of the path first."""
    shown = [fact for machine in machines for fact in machine.known if fact.name in proofs.PROGRAMS]
    proof = min(shown, key=lambda fact: not proofs.proves_direct(fact.value), default=None)
    if proof is None or proof.line is None:
        return None
    direct = proofs.proves_direct(proof.value)
    words = "The text shows no failure" if failing is None else "gdr knows no cause of what fails here"
    return _plain(
        AnswerKind.WORKING if direct else AnswerKind.NOTHING,
        f"{words}; line {proof.line} shows of {proof.name}: {proof.value}.",
        sureness=Sureness.CERTAIN,
        lines=(*((QuotedLine(proof.line, proof.text),) * direct), *(() if failing is None else (failing,))),
    )


def _documentation(said: tuple[Sentence, ...], named: tuple[Claim, ...]) -> Answer:
    codes = tuple(dict.fromkeys(claim.code for claim in named))[:MAX_OTHERS]
    return _plain(
        AnswerKind.DOCUMENTATION,
        "This text seems to explain, ask or propose: gdr finds no problem of a machine in it.",
        claimed=True,
        lines=tuple(QuotedLine(one.line, one.text) for one in said[:1]),
        others=tuple(RankedCause(code, code_page(code)[0], None) for code in codes),
    )


def _foreign(about: Topics, found: tuple[Candidate, ...]) -> Answer:
    return _plain(
        AnswerKind.ELSEWHERE,
        f"This text is about an accelerator of {about.foreign}; gdr knows the GPUs of NVIDIA.",
        others=_others(found),
    )


NO_TOPIC = "gdr recognizes nothing about RDMA or NCCL in this text, and no failure whose cause it knows."


def _nothing(about: Topics, failing: QuotedLine | None, found: tuple[Candidate, ...]) -> Answer:
    quoted = () if failing is None else (failing,)
    if not (about.rdma or about.collective):
        return _plain(AnswerKind.NOTHING, NO_TOPIC, lines=quoted)
    what = "it shows no failure" if failing is None else "what fails here is none of the failures"
    return _plain(
        AnswerKind.NOTHING,
        f"The text is about {_about(about)}, but {what} whose cause gdr knows.",
        lines=quoted,
        others=_others(found),
    )


def _about(about: Topics) -> str:
    if about.rdma:
        return "RDMA or GPU memory"
    return "NCCL" if about.collective else "GPUs" if about.gpu else "a driver"
