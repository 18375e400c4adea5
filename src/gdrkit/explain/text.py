"""Render an explanation for a terminal: the cause, what to do, what else it could be, what else is shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from msgspec import structs

from gdrkit.catalogue import rule_of
from gdrkit.explain.chains import OF_A_PEER
from gdrkit.explain.explanation import (
    ASKED,
    FAR_AWAY,
    NO_FAILURE_SHOWN,
    NO_PROBLEM,
    SET,
    STATE,
    Answer,
    AnswerKind,
    EstablishedProblem,
    Explanation,
    OpenLine,
    Question,
    QuotedLine,
    Sureness,
    TextMachine,
)
from gdrkit.explain.first_steps import INTEGRATED
from gdrkit.explain.outputs.measured import OF_A_GPU, PERFTEST
from gdrkit.explain.products import CARDS
from gdrkit.explain.ranking import is_of_a_program
from gdrkit.report.pages import code_page
from gdrkit.report.rack_traffic import rack_line
from gdrkit.report.terminal import Row, excerpt, render
from gdrkit.rules.capabilities import DIRECT, REGISTRATION

STYLES = {"head": "bold", "bad": "red", "open": "magenta", "quote": "dim", "ask": "bold green"}
QUOTE_CHARACTERS = 280
"""Length at which quoted lines are cut: three rows of a terminal. NCCL's line about a completion, with the
names and addresses of both ends, names the NIC last."""
MAX_QUOTES = 2
"""Lines that are quoted below the answer."""

HELPFUL = (
    "Useful input: the log of all ranks of a job with NCCL_DEBUG=INFO; for a question about a machine,"
    " `gdr doctor` there. gdr reads the output of modprobe, dmesg, nvidia-smi -q, lspci -nnvvv, perftest."
)
LASTING = "Every such GPU is like that, and no setting changes it."
HEADS = {
    AnswerKind.SEVERAL: "The cause is open",
    AnswerKind.ELSEWHERE: "What the text shows",
    AnswerKind.HARMLESS: "No problem",
    AnswerKind.WORKING: "The direct path works",
    AnswerKind.NO_PROBLEM: "No problem shown",
    AnswerKind.NO_OUTPUT: "No output of a program",
    AnswerKind.NOTHING: "No cause found",
}


def text(
    explanation: Explanation, *, verbose: bool = False, colour: bool = False, width: int | None = None
) -> str:
    """The explanation as lines of `width` columns, with ANSI colours if `colour`."""
    return render(_rows(explanation, verbose), STYLES, colour=colour, width=width)


def _rows(explanation: Explanation, verbose: bool) -> Iterator[Row]:
    machines = explanation.machines
    yield from _answer(explanation, verbose)
    if explanation.answer.kind is AnswerKind.NO_OUTPUT:
        return
    if explanation.answer.kind is AnswerKind.NOTHING:
        yield 2, "", HELPFUL
        yield 0, "", ""
    settled = explanation.answer.kind in (AnswerKind.NOTHING, AnswerKind.WORKING)
    settled = settled or (explanation.answer.kind is AnswerKind.HARMLESS and not explanation.answer.others)
    asks = None if settled else explanation.question
    if verbose or not _is_final(explanation):
        yield from _others(explanation.answer, asks, len(machines) > 1)
    yield from _besides(explanation.answer)
    yield from _section("Also proven", machines, _established(explanation.answer), verbose)
    yield from _section("Contradictions", machines, _contradictions, verbose)
    if verbose:
        yield from _section("Lines with open causes", machines, _open, verbose)
    yield from _also_shown(machines, verbose)
    if machines and not verbose:
        yield 0, "dim", "-v shows every open cause and how to check it; gdr codes CODE explains a code"


# -- the answer ----------------------------------------------------------------------------------------


def _answer(explanation: Explanation, verbose: bool) -> Iterator[Row]:
    answer = explanation.answer
    yield 0, "head", _head(explanation)
    code = f" ({', '.join(filter(None, (answer.cause, answer.subject)))})" if answer.cause else ""
    yield 2, "bad" if answer.cause else "", f"{answer.sentence}{code}"
    if how := _how_sure(answer, _note_of(explanation)):
        yield 2, "", how
    if answer.kind is AnswerKind.NO_OUTPUT:
        yield from ((2, "", step) for step in answer.now)
        return
    for line in answer.lines[: None if verbose else MAX_QUOTES]:
        if line.text not in answer.sentence:
            yield from _quote(line)
    causes = (answer.cause,) if answer.cause else tuple(one.code for one in answer.others)
    if why := rack_line(causes):
        yield 2, "", why
    yield 0, "", ""
    steps = answer.now if verbose else _first_steps(answer.now)
    if _is_final(explanation):
        yield 0, "head", "What to do now"
        if no_fix := _no_fix(explanation, causes):
            yield 2, "", no_fix
        yield from ((2, "", step) for step in steps)
        yield 0, "", ""
    elif steps:
        yield 0, "head", "What to do now"
        yield from ((2, "", step) for step in steps)
        yield 0, "", ""


def _no_fix(explanation: Explanation, causes: tuple[str, ...]) -> str:
    """What is left where no step makes the path direct; "" where it is not the GPU that lacks it: another
    system on the same machine may have one. A run that moved GPU memory although NVIDIA does not support the
    GPU is a program for which it works, and for no other."""
    if set(CARDS).isdisjoint(causes):
        return ""
    if "gpu-integrated" in causes:  # whose buffers in host memory need no copy
        return "No fix exists for this hardware."
    known = (fact for machine in explanation.machines for fact in machine.known)
    works = [fact for fact in known if fact.name == PERFTEST and OF_A_GPU in fact.value]
    if "gpu-consumer" not in causes or not works:
        return "No fix exists for this hardware: plan with staging through host memory."
    return (
        "Not supported, and no fix for stock programs: they go through host memory. But line "
        f"{works[0].line} shows that it works for one program: perftest, {works[0].value}."
    )


def _first_steps(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The first paragraph of what to do, with the list that follows it."""
    return (*steps[:1], *itertools.takewhile(_is_item, steps[1:]))


def _is_item(step: str) -> bool:
    return step.startswith("- ") or (step[:1].isdigit() and step[1:3] == ". ")


def _head(explanation: Explanation) -> str:
    answer = explanation.answer
    if answer.kind is AnswerKind.NO_PROBLEM and not _is_clear(explanation):
        return "No failure shown"
    if answer.kind is not AnswerKind.CAUSE:
        return HEADS[answer.kind]
    if answer.cause in OF_A_PEER:
        return HEADS[AnswerKind.ELSEWHERE]
    return {
        Sureness.CERTAIN: "The cause",
        Sureness.LIKELY: "Most likely cause",
        Sureness.POSSIBLE: "A possible cause",
    }[answer.sureness]


def _is_clear(explanation: Explanation) -> bool:
    """Whether the answer says that there is no problem, and nothing below it names one: an integrated GPU
    misses nothing."""
    proven = (found for machine in explanation.machines for found in machine.established)
    misses = any(found.blocks and found.code not in INTEGRATED for found in proven)
    return NO_PROBLEM in explanation.answer.sentence and not misses


def _note_of(explanation: Explanation) -> str:
    """What is known of the line on which an answer stands; "" if nothing is."""
    first = next(iter(explanation.answer.lines), None)
    if first is None:
        return ""
    notes = [line.note for one in explanation.machines for line in one.open if line.line == first.line]
    proven = (found for one in explanation.machines for found in one.established)
    notes += [found.seen for found in proven if first in found.proofs[:1] and found.seen != first.text]
    notes.sort(key=lambda note: note == SET)  # another output of the text may show its effect
    return notes[0] if notes and explanation.answer.subject == "" else ""


def _how_sure(answer: Answer, note: str) -> str:
    """How sure an answer is, and on which line it stands."""
    if not answer.lines:
        return ""
    number = f"line {answer.lines[0].line}"
    where = f", on {answer.machine}" if answer.machine else ""
    if answer.kind is AnswerKind.NO_PROBLEM:
        return f"{number.capitalize()} shows that."
    if answer.kind is AnswerKind.NOTHING:
        return f"What fails is in {number}."
    if answer.kind is AnswerKind.SEVERAL and (
        not answer.others
        or note in (STATE, ASKED)
        or note.startswith(FAR_AWAY)
        or answer.sentence.startswith(NO_FAILURE_SHOWN)
    ):
        return f"{number.capitalize()} shows that{where}."
    if answer.kind is AnswerKind.SEVERAL:
        seen = f": {note}" if note and not answer.claimed else ""
        return f"{number.capitalize()} {'quotes' if answer.claimed else 'shows'} the failure{where}{seen}."
    if answer.claimed:
        return (
            f"How sure: {answer.sureness}. {number.capitalize()} names it; no output in the text shows it."
        )
    by = {
        Sureness.CERTAIN: "proves it",
        Sureness.LIKELY: "points to it",
        Sureness.POSSIBLE: "has this cause most often",
    }
    seen = f": {note}" if note and note != STATE else ""
    return f"How sure: {answer.sureness}. {number.capitalize()} {by[answer.sureness]}{where}{seen}."


def _is_final(explanation: Explanation) -> bool:
    """Whether the cause is hardware that can use neither direct path, whatever is done."""
    cause = explanation.answer.cause
    if cause is None or not rule_of(cause).permanent >= set(REGISTRATION):
        return False
    problems = [found for machine in explanation.machines for found in machine.established]
    return any(found.code == cause and set(found.blocks) >= set(DIRECT) for found in problems)


def _others(answer: Answer, question: Question | None, several_machines: bool) -> Iterator[Row]:
    if not answer.others and question is None:
        return
    if answer.others:
        several = answer.kind is AnswerKind.SEVERAL
        yield 0, "head", "Possible causes, likeliest first" if several else "What else it could be"
    for other in answer.others:
        where = f", line {other.line}" if other.line is not None else ""
        yield 2, "", f"{other.title} ({other.code}{where})"
    if question is not None:
        yield from _question(question, several_machines)
    yield 0, "", ""


def _besides(answer: Answer) -> Iterator[Row]:
    if not answer.besides:
        return
    yield 0, "head", "What else fails, for another cause"
    for failure in answer.besides:
        yield from _quote(failure.line, 2)
        for cause in failure.causes:
            yield 6, "", f"{cause.title} ({cause.code})"
    yield 0, "", ""


def _question(question: Question, several: bool) -> Iterator[Row]:
    where = f" {_name(question.machine)}" if several else ""
    one = len(question.answers) == 1 and not question.otherwise
    yield 2, "head", f"To {'check it' if one else 'tell the causes apart'}, run{where}"
    yield 4, "ask", question.command
    for answer in question.answers:
        yield 6, "", f"if it shows {answer.shows}: {', '.join(answer.codes)}"
    if question.otherwise:
        yield 6, "", f"if it shows none of these, still open: {', '.join(question.otherwise)}"
    yield 4, "quote", "Or run gdr doctor on the machine itself: it checks all causes."


# -- sections with a part for each machine --------------------------------------------------------------


def _section(title: str, machines: tuple[TextMachine, ...], rows: object, verbose: bool) -> Iterator[Row]:
    """A section of the page, with the rows of each machine that has any."""
    shown = False
    for machine in machines:
        here = list(rows(machine, verbose))  # type: ignore[operator]
        if not here:
            continue
        if not shown:
            yield 0, "head", title
            shown = True
        below = 0
        if len(machines) > 1:
            yield 2, "head", _name(machine.name)
            below = 2
        yield from ((indent + below, style, words) for indent, style, words in here)
    if shown:
        yield 0, "", ""


def _name(name: str) -> str:
    return f"on {name}" if name else "on a machine that the text does not name"


def _established(answer: Answer) -> object:
    """The rows of what is proven besides the answer, and of notes; a note about a program that the text is
    not about only if all is wanted."""
    quoted = {line.line for line in answer.lines[:MAX_QUOTES]}

    def rows(machine: TextMachine, verbose: bool) -> Iterator[Row]:
        notes = (note for note in machine.notes if verbose or not is_of_a_program(note))
        told: set[str] = set()  # kinds of GPUs that nobody can change
        every = (*machine.established, *notes)
        for found in every if verbose else _alike_as_one(every):
            if found.code == answer.cause and not verbose and {p.line for p in found.proofs} & quoted:
                continue
            if lasts := found.code in CARDS and found.code != answer.cause:
                if found.code in told:
                    continue
                told.add(found.code)
            bad = found.blocks and found not in machine.notes and not lasts
            yield 2, "bad" if bad else "", _headline(found)
            for proof in found.proofs[: None if verbose else 1]:
                yield from _quote(proof)
            if lasts:
                yield 6, "", LASTING

    return rows


def _alike_as_one(every: tuple[EstablishedProblem, ...]) -> Iterator[EstablishedProblem]:
    """Problems that differ in their subject alone, such as those of eight GPUs, as one with the first's
    lines."""
    alike: dict[object, list[EstablishedProblem]] = {}
    for found in every:
        alike.setdefault((found.code, found.seen, found.confidence), []).append(found)
    for first, *others in alike.values():
        more = f" and {len(others)} more" if others else ""
        yield structs.replace(first, subject=f"{first.subject}{more}")


def _headline(found: EstablishedProblem) -> str:
    subject = "" if found.subject in ("", "node") else f" {found.subject}"
    sure = "" if found.confidence == "certain" else f" ({found.confidence})"
    quoted = any(found.seen == proof.text for proof in found.proofs)
    title = code_page(found.code)[0]
    return f"{title} ({found.code}{subject}){sure}" + ("" if quoted else f" Seen: {found.seen}")


def _open(machine: TextMachine, verbose: bool) -> Iterator[Row]:
    for line in machine.open:
        times = f", and {line.count - 1} more like it" if line.count > 1 else ""
        yield from _quote(QuotedLine(line.line, line.text), 2, times)
        yield from _causes(line)


def _causes(line: OpenLine) -> Iterator[Row]:
    if line.note:
        yield 6, "", f"{line.note}."
    for cause in line.causes:
        sign = f"{cause.ask} shows {cause.shows}" if cause.ask else "run gdr doctor on the machine itself"
        yield 6, "open", f"{cause.code}: {sign}"
    reasons: dict[str, list[str]] = {}
    for excluded in line.ruled_out:
        reasons.setdefault(excluded.why, []).append(excluded.code)
    for why, codes in reasons.items():
        yield 6, "quote", f"ruled out: {', '.join(codes)} ({why})"


def _contradictions(machine: TextMachine, verbose: bool) -> Iterator[Row]:
    for found in machine.contradictions:
        yield 2, "bad", f"{found.text}."
        for proof in found.proofs:
            yield from _quote(proof)


def _also_shown(machines: tuple[TextMachine, ...], verbose: bool) -> Iterator[Row]:
    """The facts of each machine; those that are alike share a part, with the lines of the first."""
    alike: dict[object, list[TextMachine]] = {}
    for number, machine in enumerate(machines):
        facts = tuple((fact.name, fact.value) for fact in machine.known)
        alike.setdefault(number if verbose or not facts else facts, []).append(machine)
    firsts = tuple(
        structs.replace(same[0], name=f"{same[0].name} and {len(same) - 1} more")
        if len(same) > 1
        else same[0]
        for same in alike.values()
    )
    if len(machines) > 1 and len(firsts) == 1:
        firsts = (*firsts, structs.replace(firsts[0], known=()))
    yield from _section("Also shown", firsts, _known, verbose)


def _known(machine: TextMachine, verbose: bool) -> Iterator[Row]:
    for fact in machine.known:
        number = f"  (line {fact.line})" if fact.line is not None else ""
        yield 2, "", f"{fact.name}: {fact.value}{number}"


def _quote(proof: QuotedLine, indent: int = 6, more: str = "") -> Iterator[Row]:
    yield indent, "quote", f"line {proof.line}: {excerpt(proof.text, QUOTE_CHARACTERS)}{more}"
