"""An explanation for a terminal, read top down: established, still open, the one command."""

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
"""How much of a line is quoted: two rows of a terminal. The line's number leads to the rest."""

HELPFUL = (
    "Helpful are: the output of modprobe, dmesg, modinfo nvidia-peermem, nvidia-smi -q, lspci -nnvvv, a log"
    " of NCCL with NCCL_DEBUG=INFO, a run of perftest."
)


def text(told: Explanation, *, verbose: bool = False, colour: bool = False, width: int | None = None) -> str:
    """The explanation as lines, with ANSI colours where asked for. Width in columns."""
    return render(_rows(told, verbose), STYLES, colour=colour, width=width)


def _rows(told: Explanation, verbose: bool) -> Iterator[Row]:
    machines = told.machines
    if not machines:
        yield 0, "head", "Nothing in this text tells of GPUDirect RDMA"
        why = (
            "No line of it has a form that gdr knows"
            if told.lines == 0
            else "Nothing that it shows is wrong"
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
    if told.question is not None:
        yield from _question(told.question, len(machines) > 1)
    yield from _section("Also shown", machines, _known, verbose)
    if not verbose:
        yield 0, "dim", "-v shows what would tell each cause; gdr codes CODE explains a code"


def _section(title: str, machines: tuple[TextMachine, ...], rows: object, verbose: bool) -> Iterator[Row]:
    """A part of the page: of each machine that has something to say to it."""
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
        more = ": whatever is open below, no answer to it changes that" if machine.open else ""
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
                f"{cause.ask} shows {cause.shows}"
                if cause.ask
                else "gdr doctor, on the machine itself, tells"
            )
            yield 6, "open", f"{cause.code}: {sign}"
    else:
        yield 6, "open", f"may be {', '.join(cause.code for cause in line.causes)}"
    reasons: dict[str, list[str]] = {}
    for excluded in line.ruled_out:
        reasons.setdefault(excluded.why, []).append(excluded.code)
    for why, codes in reasons.items():
        yield 6, "quote", f"not {', '.join(codes)}: {why}"


def _contradictions(machine: TextMachine, verbose: bool) -> Iterator[Row]:
    for found in machine.contradictions:
        yield 2, "bad", f"{found.text}."
        for proof in found.proofs:
            yield from _quote(proof)


def _known(machine: TextMachine, verbose: bool) -> Iterator[Row]:
    for fact in machine.known:
        place = f"  (line {fact.line})" if fact.line is not None else ""
        yield 2, "", f"{fact.name}: {fact.value}{place}"


def _question(asked: Question, several: bool) -> Iterator[Row]:
    where = f", {_name(asked.machine)}" if several else ""
    yield 0, "head", f"Ask next{where}"
    yield 2, "ask", asked.command
    for answer in asked.answers:
        yield 4, "", f"shows {answer.shows}: {', '.join(answer.codes)}"
    if asked.otherwise:
        yield 4, "", f"shows none of these: still {', '.join(asked.otherwise)}"
    yield 2, "quote", "gdr doctor on the machine itself answers all of it."
    yield 0, "", ""


def _quote(proof: QuotedLine, indent: int = 6, more: str = "") -> Iterator[Row]:
    words = " ".join(proof.text.split())
    cut = words if len(words) <= QUOTE_CHARACTERS else words[:QUOTE_CHARACTERS] + "..."
    yield indent, "quote", f"line {proof.line}: {cut}{more}"
