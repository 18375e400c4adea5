"""Render an explanation for a terminal: what is established, what is open, the command to run."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.explanation import (
    EstablishedProblem,
    Explanation,
    OpenLine,
    Question,
    QuotedLine,
    TextMachine,
)
from gdrkit.report.terminal import Row, render
from gdrkit.rules import BY_CODE

STYLES = {"head": "bold", "bad": "red", "open": "magenta", "quote": "dim", "ask": "bold green"}
QUOTE_CHARACTERS = 160
"""Length at which quoted lines are cut: two rows of a terminal."""

HELPFUL = (
    "Useful input: the output of modprobe, dmesg, modinfo nvidia-peermem, nvidia-smi -q, lspci -nnvvv or"
    " perftest, or an NCCL log with NCCL_DEBUG=INFO."
)


def text(
    explanation: Explanation, *, verbose: bool = False, colour: bool = False, width: int | None = None
) -> str:
    """The explanation as lines of `width` columns, with ANSI colours if `colour`."""
    return render(_rows(explanation, verbose), STYLES, colour=colour, width=width)


def _rows(explanation: Explanation, verbose: bool) -> Iterator[Row]:
    machines = explanation.machines
    if not machines:
        yield 0, "head", "Nothing in this text is about GPUDirect RDMA"
        why = (
            "gdr recognizes no line of it"
            if explanation.lines == 0
            else "The output that it contains shows no problem"
        )
        yield 2, "", f"{why}. {HELPFUL}"
        return
    yield from _section("Established", machines, _established, verbose)
    if not any(machine.established for machine in machines):
        yield 0, "head", "Established"
        yield 2, "", "nothing"
        yield 0, "", ""
    yield from _section("Contradictions", machines, _contradictions, verbose)
    yield from _section("Still open", machines, _open, verbose)
    if explanation.question is not None:
        yield from _question(explanation.question, len(machines) > 1)
    yield from _section("Also shown", machines, _known, verbose)
    if not verbose:
        yield 0, "dim", "-v shows how to check each cause; gdr codes CODE explains a code"


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
        if len(machines) > 1:
            yield 1, "head", _name(machine.name)
        yield from here
    if shown:
        yield 0, "", ""


def _name(name: str) -> str:
    return f"on {name}" if name else "on a machine that the text does not name"


def _established(machine: TextMachine, verbose: bool) -> Iterator[Row]:
    for found in machine.established:
        yield 2, "bad" if found.blocks else "", _headline(found)
        for proof in found.proofs[: None if verbose else 2]:
            yield from _quote(proof)
    if any(BY_CODE[found.code].permanent for found in machine.established):
        more = ", whatever the open causes below turn out to be" if machine.open else ""
        yield 2, "", f"No fix exists for this hardware{more}."


def _headline(found: EstablishedProblem) -> str:
    subject = "" if found.subject in ("", "node") else f" {found.subject}"
    sure = "" if found.confidence == "certain" else f" ({found.confidence})"
    quoted = any(found.seen == proof.text for proof in found.proofs)
    return f"{found.code}{subject}{sure}" + ("" if quoted else f": {found.seen}")


def _open(machine: TextMachine, verbose: bool) -> Iterator[Row]:
    for line in machine.open:
        times = f", and {line.count - 1} more like it" if line.count > 1 else ""
        yield from _quote(QuotedLine(line.line, line.text), 2, times)
        yield from _causes(line, verbose)


def _causes(line: OpenLine, verbose: bool) -> Iterator[Row]:
    if line.note:
        yield 6, "", f"{line.note}."
    if verbose:
        for cause in line.causes:
            sign = (
                f"{cause.ask} shows {cause.shows}" if cause.ask else "run gdr doctor on the machine itself"
            )
            yield 6, "open", f"{cause.code}: {sign}"
    else:
        label = "possible cause" if len(line.causes) == 1 else "possible causes"
        yield 6, "open", f"{label}: {', '.join(cause.code for cause in line.causes)}"
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


def _known(machine: TextMachine, verbose: bool) -> Iterator[Row]:
    for fact in machine.known:
        number = f"  (line {fact.line})" if fact.line is not None else ""
        yield 2, "", f"{fact.name}: {fact.value}{number}"


def _question(question: Question, several: bool) -> Iterator[Row]:
    where = f" {_name(question.machine)}" if several else ""
    yield 0, "head", f"To find out, run{where}"
    yield 2, "ask", question.command
    for answer in question.answers:
        yield 4, "", f"if it shows {answer.shows}: {', '.join(answer.codes)}"
    if question.otherwise:
        yield 4, "", f"if it shows none of these, still open: {', '.join(question.otherwise)}"
    yield 2, "quote", "Or run gdr doctor on the machine itself: it checks all causes."
    yield 0, "", ""


def _quote(proof: QuotedLine, indent: int = 6, more: str = "") -> Iterator[Row]:
    words = " ".join(proof.text.split())
    cut = words if len(words) <= QUOTE_CHARACTERS else words[:QUOTE_CHARACTERS] + "..."
    yield indent, "quote", f"line {proof.line}: {cut}{more}"
