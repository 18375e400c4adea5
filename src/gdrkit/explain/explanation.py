"""What a pasted text tells: the types of `explain`, and as they are what `gdr explain --json` writes.

Versioned, additive. The text for a terminal is made from these, so that neither says more. No field has a
default: whoever reads the document finds each of them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gdrkit.evidence import Confidence
from gdrkit.rules import Code
from gdrkit.rules.rule import PATHS, Layer

Path = Annotated[str, Meta(extra_json_schema={"enum": list(PATHS)})]
LineNumber = Annotated[int, Meta(ge=1, description="a line of the text, from 1")]


class QuotedLine(Struct, frozen=True):
    """A line of the text, as it stands there."""

    line: LineNumber
    text: str


class EstablishedProblem(Struct, frozen=True, kw_only=True):
    """A problem that the text proves."""

    code: Code
    layer: Layer
    subject: str
    seen: str
    confidence: Confidence
    blocks: tuple[Path, ...]  # the paths that it stops
    proofs: tuple[QuotedLine, ...]  # the one that proves it first


class Cause(Struct, frozen=True):
    """Something that may be behind a line."""

    code: Code
    ask: str  # the command that would show it; empty where there is none
    shows: str  # what it shows if this is the cause


class RuledOut(Struct, frozen=True):
    """A cause that the text rules out."""

    code: Code
    why: str


class OpenLine(Struct, frozen=True, kw_only=True):
    """A line that the text does not explain."""

    line: LineNumber
    text: str
    count: int  # lines that say the same
    subject: str  # the module that it names; empty if none
    causes: tuple[Cause, ...]
    ruled_out: tuple[RuledOut, ...]
    note: str  # why it decides nothing, where that is not plain
    claimed: bool  # a word of a person's: worth a look, no more

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(cause.code for cause in self.causes)


class KnownFact(Struct, frozen=True):
    """A fact that the text shows, good or bad, and the line that does."""

    name: str
    value: str
    line: LineNumber | None
    text: str


class Contradiction(Struct, frozen=True):
    """Two things in the text that do not go together, and what follows."""

    text: str
    proofs: tuple[QuotedLine, ...]


class TextMachine(Struct, frozen=True, kw_only=True):
    """What the text tells of one machine. The name is empty where nobody gives one."""

    name: str
    established: tuple[EstablishedProblem, ...]
    open: tuple[OpenLine, ...]
    known: tuple[KnownFact, ...]
    contradictions: tuple[Contradiction, ...]

    @property
    def says_anything(self) -> bool:
        return bool(self.established or self.open or self.known or self.contradictions)


class AnswerMeaning(Struct, frozen=True):
    """What a question's answer would mean."""

    shows: str
    codes: tuple[Code, ...]


class Question(Struct, frozen=True, kw_only=True):
    """The one command that would decide most between the causes that are open."""

    command: str
    machine: str
    answers: tuple[AnswerMeaning, ...]
    otherwise: tuple[Code, ...]  # causes that it leaves open, should it show none of these


class Explanation(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.explanation/1"):
    """What a text establishes, what it leaves open, and what to ask next."""

    machines: tuple[TextMachine, ...]
    question: Question | None
    lines: int  # lines of the text that a machine printed, as far as that can be told

    @property
    def exit_code(self) -> int:
        """2 something established stops a path, 3 causes are open, 1 something else is wrong, else 0."""
        established = [found for machine in self.machines for found in machine.established]
        if any(found.blocks for found in established):
            return 2
        if any(machine.open or machine.contradictions for machine in self.machines):
            return 3
        return 1 if established else 0
