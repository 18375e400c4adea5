"""The result of `gdr explain`: these types are also the document that `gdr explain --json` writes.

Versioned; it grows by additions only. The text for a terminal is made from the same types. No field has a
default, so every field is always present in the JSON.
"""

from __future__ import annotations

import enum
from typing import Annotated

from msgspec import Meta, Struct

from gdrkit.catalogue import Code
from gdrkit.evidence import Confidence
from gdrkit.programs import consumer
from gdrkit.rules.rule import Layer

Path = Annotated[str, Meta(extra_json_schema={"enum": [str(path) for path in consumer.Path]})]
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


QUOTED = "quoted by a person; no output shows it"
UNUSUAL = "the line has an unusual form"
"""Notes of claimed lines in the form in which a program prints them."""

SET = "set in the command; no output shows its effect"
"""Note of a setting that turns a path off, in a text without the output of a job."""

ASKED = "the command only asks, and loads nothing"
"""Note of what a command answers that changes nothing, such as modinfo: nothing failed by it."""

NO_ERROR = "the line does not say with which error the call failed"
"""Note of a line that has more causes than those which gdrkit knows."""

STATE = "what the output shows need not matter: nothing in it failed"
"""Note of a state that only some programs or machines need otherwise."""

ONE_END = "what the other end of the link can do is not shown"
"""In the note of a link that is slower than one of its ends: the other may be the reason, as of a slot with
fewer lanes than its card."""

FAR_AWAY = "the nearest NIC is at"
"""How the note begins of a row of a topology: a distance makes a path slow, and fails at nothing itself."""

UNDECIDED = "what the line shows has this cause most often, and may have others"
"""Note of a line of a report that names no cause."""

WENT_ON = "the program goes on without it"
"""Note of a line that is not why the program failed, if it did."""


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
    leads: bool  # the first cause is by far the likeliest

    @property
    def printed(self) -> bool:
        """Whether a program printed it, or a person quotes it as a program prints it."""
        return not self.claimed or self.note in (QUOTED, UNUSUAL)

    @property
    def fails(self) -> bool:
        """Whether an output reports a failure, and not a state or a setting that need not matter."""
        return not (self.claimed or self.states) and self.note not in (ASKED, SET, WENT_ON)

    @property
    def states(self) -> bool:
        """Whether an output shows a state that need not matter, by which nothing in it failed."""
        return self.note == STATE or self.note.startswith(FAR_AWAY)

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(cause.code for cause in self.causes)


NO_FAILURE_SHOWN = "The text shows no failure, but what may be one"
"""How the answer to a text begins that shows a state which need not be a fault."""

NO_PROBLEM = "The text shows no problem"
"""How one begins that looks well as far as the text shows it: no rate is left to be judged."""

TOPOLOGY = "topology"
"""The name of the fact that a text has a matrix of `nvidia-smi topo -m`."""


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
    notes: tuple[EstablishedProblem, ...]  # proven, but without effect on what the text is about
    open: tuple[OpenLine, ...]
    known: tuple[KnownFact, ...]
    cleared: tuple[Code, ...]  # causes that its outputs exclude for certain
    contradictions: tuple[Contradiction, ...]

    @property
    def has_content(self) -> bool:
        return bool(self.established or self.notes or self.open or self.known or self.contradictions)


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


class AnswerKind(enum.StrEnum):
    """What an answer rests on."""

    CAUSE = "cause"  # one cause is established, or clearly the likeliest
    SEVERAL = "several"  # something failed, and the text does not decide between the causes
    ELSEWHERE = "elsewhere"  # a failure of something else
    HARMLESS = "harmless"  # a line that looks like a failure and is none
    WORKING = "working"  # the text shows GPU memory on the network, and no problem
    NO_PROBLEM = "no-problem"  # it shows states or rates of a machine, and nothing wrong with them
    NO_OUTPUT = "no-output"  # the text shows nothing that a program printed
    NOTHING = "nothing"  # it shows output, and neither a failure nor a cause that gdrkit knows


class Sureness(enum.StrEnum):
    """How sure an answer is."""

    CERTAIN = "certain"  # an output proves it
    LIKELY = "likely"  # an output points to it
    POSSIBLE = "possible"  # it fits what the text says


class RankedCause(Struct, frozen=True):
    """A possible cause in words, and the lines that suggest it."""

    code: Code
    title: str
    line: LineNumber | None


class OtherFailure(Struct, frozen=True):
    """A failing line that the cause of an answer does not explain, and its causes, likeliest first."""

    line: QuotedLine
    causes: tuple[RankedCause, ...]


class Answer(Struct, frozen=True, kw_only=True):
    """The answer in short: the most likely cause, how sure it is, and what to do now."""

    kind: AnswerKind
    sentence: str
    cause: Code | None  # the code of the sentence, if it has one
    subject: str  # the module, GPU or device that it is about; empty if none
    machine: str  # whose lines prove or suggest it; empty if the text names none
    sureness: Sureness
    claimed: bool  # a person quotes or names it; no output shows it
    lines: tuple[QuotedLine, ...]  # on which the sentence stands
    now: tuple[str, ...]  # what to do
    others: tuple[RankedCause, ...]  # what else it could be, likeliest first
    besides: tuple[OtherFailure, ...]  # what else fails, for another cause


def plain(kind: AnswerKind, sentence: str, **more: object) -> Answer:
    """An answer that names no cause; `more` are its other fields, if they are not empty."""
    values: dict[str, object] = {
        "cause": None, "subject": "", "machine": "", "sureness": Sureness.POSSIBLE, "claimed": False,
        "lines": (), "now": (), "others": (), "besides": (),
    }  # fmt: skip
    return Answer(kind=kind, sentence=sentence, **{**values, **more})  # type: ignore[arg-type]


class Explanation(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.explanation/1"):
    """What a text proves, what it leaves open, and the command to run next."""

    answer: Answer
    machines: tuple[TextMachine, ...]
    question: Question | None
    lines: int  # lines that were recognized as output of a machine, without repetitions in a long text

    @property
    def exit_code(self) -> int:
        """0 if the text shows that the path works, or that what looks like a failure is none; 1 for a
        proven problem that stops no path; 2 for one that stops a path; 3 for everything else."""
        established = [found for machine in self.machines for found in machine.established]
        open_lines = any(machine.open for machine in self.machines)
        if self.answer.kind is AnswerKind.SEVERAL and established and not open_lines:
            return 3  # the answer says that it is open whether what is proven matters
        if any(found.blocks for found in established):
            return 2
        if any(machine.open or machine.contradictions for machine in self.machines):
            return 3
        if established:
            return 1
        return 0 if self.answer.kind in (AnswerKind.WORKING, AnswerKind.HARMLESS) else 3
