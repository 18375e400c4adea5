"""The result of `gdr explain`: these types are also the document that `gdr explain --json` writes.

Versioned; it grows by additions only. The text for a terminal is made from the same types. No field has a
default, so every field is always present in the JSON.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gdrkit.evidence import Confidence
from gdrkit.rules import Code
from gdrkit.rules.rule import PATHS, Layer

Path = Annotated[str, Meta(extra_json_schema={"enum": list(PATHS)})]
LineNumber = Annotated[int, Meta(ge=1, description="line number in the text, from 1")]


class QuotedLine(Struct, frozen=True):
    """A line of the text, unchanged."""

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
    proofs: tuple[QuotedLine, ...]  # the first one suffices


class Cause(Struct, frozen=True):
    """A possible cause of a line."""

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
    count: int  # similar lines, this one included
    subject: str  # the module that it names; empty if none
    causes: tuple[Cause, ...]
    ruled_out: tuple[RuledOut, ...]
    note: str  # why it proves nothing, where that is not obvious
    claimed: bool  # a person mentions it; no output shows it

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(cause.code for cause in self.causes)


class KnownFact(Struct, frozen=True):
    """A fact that the text shows, and the line that shows it."""

    name: str
    value: str
    line: LineNumber | None
    text: str


class Contradiction(Struct, frozen=True):
    """Two parts of the text that contradict each other, and what follows."""

    text: str
    proofs: tuple[QuotedLine, ...]


class TextMachine(Struct, frozen=True, kw_only=True):
    """What the text shows about one machine. The name is empty if the text gives none."""

    name: str
    established: tuple[EstablishedProblem, ...]
    open: tuple[OpenLine, ...]
    known: tuple[KnownFact, ...]
    contradictions: tuple[Contradiction, ...]

    @property
    def has_content(self) -> bool:
        return bool(self.established or self.open or self.known or self.contradictions)


class AnswerMeaning(Struct, frozen=True):
    """One possible output of the command, and the causes that it would show."""

    shows: str
    codes: tuple[Code, ...]


class Question(Struct, frozen=True, kw_only=True):
    """The command that would rule out or confirm the most open causes."""

    command: str
    machine: str
    answers: tuple[AnswerMeaning, ...]
    otherwise: tuple[Code, ...]  # causes that stay open if it shows none of these


class Explanation(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.explanation/1"):
    """What a text proves, what it leaves open, and the command to run next."""

    machines: tuple[TextMachine, ...]
    question: Question | None
    lines: int  # lines of the text that were recognized as output of a machine

    @property
    def exit_code(self) -> int:
        """2 if an established problem stops a path, 3 if causes are open, 1 for other problems, else 0."""
        established = [found for machine in self.machines for found in machine.established]
        if any(found.blocks for found in established):
            return 2
        if any(machine.open or machine.contradictions for machine in self.machines):
            return 3
        return 1 if established else 0
