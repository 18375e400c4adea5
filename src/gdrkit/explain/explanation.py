"""What a pasted text tells: the types of `explain`. PURE."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import Confidence
from gdrkit.rules.tell import Tell


class Proof(Struct, frozen=True):
    """A line of the text, as it stands there."""

    number: int
    text: str


class Established(Struct, frozen=True, kw_only=True):
    """A problem that the text proves."""

    code: str
    layer: str
    subject: str
    seen: str
    confidence: Confidence
    proofs: tuple[Proof, ...]  # the one that proves it first
    blocks: tuple[str, ...]  # the paths that it stops


class Cause(Struct, frozen=True):
    """Something that may be behind a line."""

    code: str
    tell: Tell | None  # what would show it


class Excluded(Struct, frozen=True):
    """A cause that the text rules out."""

    code: str
    why: str


class OpenLine(Struct, frozen=True, kw_only=True):
    """A line that the text does not explain."""

    proof: Proof
    count: int = 1  # lines that say the same
    subject: str = ""  # the module that it names
    causes: tuple[Cause, ...]
    excluded: tuple[Excluded, ...] = ()
    note: str = ""  # why it decides nothing, where that is not plain
    said_by_person: bool = False  # a word of a person's: worth a look, no more

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(cause.code for cause in self.causes)


class Known(Struct, frozen=True):
    """A fact that the text shows, good or bad."""

    name: str
    value: str
    proof: Proof | None


class Contradiction(Struct, frozen=True):
    """Two things in the text that do not go together, and what follows."""

    text: str
    proofs: tuple[Proof, ...]


class Machine(Struct, frozen=True, kw_only=True):
    """What the text tells of one machine. The name is empty where nobody gives one."""

    name: str
    established: tuple[Established, ...] = ()
    open: tuple[OpenLine, ...] = ()
    known: tuple[Known, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def says_anything(self) -> bool:
        return bool(self.established or self.open or self.known or self.contradictions)


class Answer(Struct, frozen=True):
    """What a question's answer would mean."""

    shows: str
    codes: tuple[str, ...]


class Question(Struct, frozen=True, kw_only=True):
    """The one command that would decide most between the causes that are open."""

    command: str
    machine: str
    answers: tuple[Answer, ...]
    otherwise: tuple[str, ...]  # causes that it leaves open, should it show none of these


class Explanation(Struct, frozen=True, kw_only=True):
    """What a text establishes, what it leaves open, and what to ask next."""

    machines: tuple[Machine, ...]
    question: Question | None
    lines: int  # lines of the text that a machine printed, as far as that can be told
