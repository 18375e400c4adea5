"""What a pasted text tells, as a document: `gdr explain --json`, schema gdrkit.explanation/1. PURE.

Versioned, additive. The text for a terminal is made from this one, so that neither says more.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.explain.explanation import (
    Contradiction,
    Established,
    Explanation,
    Known,
    Machine,
    OpenLine,
    Proof,
    Question,
)
from gdrkit.rules.tell import fill


class ProofSection(Struct, kw_only=True):
    line: int  # in the text, from 1
    text: str


class EstablishedSection(Struct, kw_only=True):
    code: str
    layer: str
    subject: str
    seen: str
    confidence: str  # certain, likely, assumed
    blocks: list[str]  # the paths that it stops
    proofs: list[ProofSection]


class CauseSection(Struct, kw_only=True):
    code: str
    ask: str  # the command that would show it; empty where there is none
    shows: str  # what it shows if this is the cause


class RuledOutSection(Struct, kw_only=True):
    code: str
    why: str


class OpenSection(Struct, kw_only=True):
    line: int
    text: str
    count: int  # lines that say the same
    subject: str  # the module that it names; empty if none
    causes: list[CauseSection]
    ruled_out: list[RuledOutSection]
    note: str
    said_by_person: bool


class KnownSection(Struct, kw_only=True):
    name: str
    value: str
    line: int | None
    text: str


class ContradictionSection(Struct, kw_only=True):
    text: str
    proofs: list[ProofSection]


class MachineSection(Struct, kw_only=True):
    name: str  # empty where the text gives none
    established: list[EstablishedSection]
    open: list[OpenSection]
    known: list[KnownSection]
    contradictions: list[ContradictionSection]


class AnswerSection(Struct, kw_only=True):
    shows: str
    codes: list[str]


class QuestionSection(Struct, kw_only=True):
    command: str
    machine: str
    answers: list[AnswerSection]
    otherwise: list[str]  # causes that stay open where it shows none of these


class ExplanationDocument(Struct, kw_only=True):
    """All that `gdr explain` has to say of a text."""

    schema: str = "gdrkit.explanation/1"
    machines: list[MachineSection]
    question: QuestionSection | None
    lines: int  # lines that a machine printed, as far as that can be told


def document(explanation: Explanation) -> ExplanationDocument:
    """The document of an explanation."""
    asked = explanation.question
    return ExplanationDocument(
        machines=[_machine(machine) for machine in explanation.machines],
        question=None if asked is None else _question(asked),
        lines=explanation.lines,
    )


def exit_code(told: ExplanationDocument) -> int:
    """2 something established stops a path, 3 causes are open, 1 something else is wrong, 0 nothing is."""
    established = [found for machine in told.machines for found in machine.established]
    if any(found.blocks for found in established):
        return 2
    if any(machine.open or machine.contradictions for machine in told.machines):
        return 3
    return 1 if established else 0


def _machine(machine: Machine) -> MachineSection:
    return MachineSection(
        name=machine.name,
        established=[_established(found) for found in machine.established],
        open=[_open(line) for line in machine.open],
        known=[_known(fact) for fact in machine.known],
        contradictions=[_contradiction(found) for found in machine.contradictions],
    )


def _established(found: Established) -> EstablishedSection:
    return EstablishedSection(
        code=found.code,
        layer=found.layer,
        subject=found.subject,
        seen=found.seen,
        confidence=found.confidence,
        blocks=list(found.blocks),
        proofs=[_proof(proof) for proof in found.proofs],
    )


def _open(line: OpenLine) -> OpenSection:
    return OpenSection(
        line=line.proof.number,
        text=line.proof.text,
        count=line.count,
        subject=line.subject,
        causes=[
            CauseSection(
                code=cause.code,
                ask=fill(cause.tell.command, line.subject) if cause.tell else "",
                shows=fill(cause.tell.shows, line.subject) if cause.tell else "",
            )
            for cause in line.causes
        ],
        ruled_out=[RuledOutSection(code=cause.code, why=cause.why) for cause in line.excluded],
        note=line.note,
        said_by_person=line.said_by_person,
    )


def _known(fact: Known) -> KnownSection:
    proof = fact.proof
    return KnownSection(
        name=fact.name,
        value=fact.value,
        line=None if proof is None else proof.number,
        text="" if proof is None else proof.text,
    )


def _contradiction(found: Contradiction) -> ContradictionSection:
    return ContradictionSection(text=found.text, proofs=[_proof(proof) for proof in found.proofs])


def _question(asked: Question) -> QuestionSection:
    return QuestionSection(
        command=asked.command,
        machine=asked.machine,
        answers=[AnswerSection(shows=answer.shows, codes=list(answer.codes)) for answer in asked.answers],
        otherwise=list(asked.otherwise),
    )


def _proof(proof: Proof) -> ProofSection:
    return ProofSection(line=proof.number, text=proof.text)
