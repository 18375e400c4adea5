"""The answer of `gdr explain` in short: the likeliest cause, how sure, what to do, what else it could be.

One cause is named only if an output points to it: it proves the cause, or has no other one. If a line has
several causes and nothing ranks them, the answer says what failed and asks. Of a text without any output it
says which pages its words belong to, and what to paste.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from gdrkit import catalogue
from gdrkit.catalogue import CODES, rule_of
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
from gdrkit.explain.products import HARDWARE_CODES, products
from gdrkit.explain.ranking import BY_LINE, NOTE, Candidate, brings_about
from gdrkit.explain.subject import Topics
from gdrkit.explain.transcript import TextLine, shows_output
from gdrkit.explain.uncoded_lines import OtherLine
from gdrkit.explain.unexplained import reports_failure, unexplained
from gdrkit.programs import proofs
from gdrkit.report.code_search import related
from gdrkit.report.pages import code_page

NAMED = 4.0
"""Weight from which a cause is named: a line that leaves no other."""

MAX_OTHERS = 5


def answer(
    lines: tuple[TextLine, ...],
    machines: tuple[TextMachine, ...],
    found: tuple[Candidate, ...],
    about: Topics,
    other: OtherLine | None,
) -> Answer:
    """The answer to a text, from its machines, its ranked causes, and the line about something else that
    weighs most."""
    if other is not None and _leads(other, found) and not (other.harmless and _fails(lines)):
        return _elsewhere(other, found)
    if found and found[0].printed and _is_named(found):
        return _cause(found, machines)
    if not (shows_output(lines) or any(one.printed for one in found) or any(one.known for one in machines)):
        return _without_output(lines)
    if about.foreign:
        return _foreign(about, found)
    failing = unexplained(lines)
    if found and (found[0].weight > NOTE or failing is None):
        return _several(found, machines)
    return _working(machines, failing) or _nothing(about, failing, found)


def _leads(other: OtherLine, found: tuple[Candidate, ...]) -> bool:
    """Whether a line about something else weighs more than every cause, or reads the same line better."""
    if not found or other.weight > found[0].weight:
        return True
    same = other.line.number in {line.line for line in found[0].lines}
    return same and other.weight >= BY_LINE


def _fails(lines: tuple[TextLine, ...]) -> bool:
    """Whether an output reports a failure that is not one of those known to be harmless."""
    return any(
        line.kind == "machine" and reports_failure(line) and not _is_harmless(line.text) for line in lines
    )


def _is_harmless(text: str) -> bool:
    known = catalogue.match(text)
    meaning = known.message.meaning if known is not None else None
    return meaning is not None and meaning.effect == "harmless"


def _is_named(found: tuple[Candidate, ...]) -> bool:
    if found[0].code in GENERIC and found[0].sureness is not Sureness.CERTAIN:
        return False
    return found[0].weight >= NAMED


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
        sentence=title,
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
    return {code for line in lines for code in line.codes}


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


def _elsewhere(other: OtherLine, found: tuple[Candidate, ...]) -> Answer:
    """The meaning of a line about something else."""
    line = other.line
    return _plain(
        AnswerKind.HARMLESS if other.harmless else AnswerKind.ELSEWHERE,
        f"{other.means}.",
        sureness=Sureness.LIKELY,
        claimed=line.kind != "machine",
        lines=(QuotedLine(line.number, line.text.strip()),),
        now=(f"{other.todo}.",),
        others=_others(found),
    )


FAR = ("pair-cross-socket", "pair-distant")
"""Distances in a topology, which fail at nothing themselves."""


def _several(found: tuple[Candidate, ...], machines: tuple[TextMachine, ...]) -> Answer:
    lines = found[0].lines[:1]
    between = ": it does not decide between these causes" if len(found) > 1 else ""
    shown = f"The text shows what failed, but not why{between}."
    if found[0].code in FAR and _is_listed(found[0], machines):
        shown = "The text shows GPUs that are far from their NIC, but not whether that matters here."
    return _plain(
        AnswerKind.SEVERAL,
        shown,
        claimed=found[0].claimed,
        lines=lines,
        others=_others(found),
    )


def _is_listed(first: Candidate, machines: tuple[TextMachine, ...]) -> bool:
    """Whether a cause is a state in a listing, such as a topology, and not what a program fails at."""
    numbers = {line.line for line in first.lines}
    lines = (line for machine in machines for line in machine.open)
    return all(line.note for line in lines if line.line in numbers and first.code in line.codes)


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


def _foreign(about: Topics, found: tuple[Candidate, ...]) -> Answer:
    return _plain(
        AnswerKind.ELSEWHERE,
        f"This text is about an accelerator of {about.foreign}; gdr knows the GPUs of NVIDIA.",
        others=_others(found),
    )


def _without_output(lines: tuple[TextLine, ...]) -> Answer:
    """Where to read on, for a text of words alone: they prove nothing, whatever they say."""
    text = "\n".join(line.text for line in lines[:MAX_LINES])
    names = list(dict.fromkeys((*sorted(products(text) & HARDWARE_CODES), *related(text))))[:MAX_PAGES]
    belong = f" Its words belong to {', '.join(names)}: `gdr codes NAME`." if names else ""
    asks = (one.command for name in names if name in CODES for one in rule_of(name).reported_by)
    command = next((command for command in asks if "{" not in command), "nvidia-smi topo -m")
    return _plain(
        AnswerKind.NO_OUTPUT,
        f"The text shows no output of a program, so nothing in it can be judged.{belong}",
        now=(f"Run `gdr doctor` on the machine, or paste what `{command}` prints there.",),
    )


MAX_LINES, MAX_PAGES = 2000, 5
"""Lines whose words are looked up, and pages that are named, at most."""

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
