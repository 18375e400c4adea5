"""What a node was seen to hold, and what nobody could see. PURE: no machine is touched here."""

from __future__ import annotations

import enum
from typing import Protocol

from msgspec import Struct

from gdrkit.evidence.ranked import Ranked


class Confidence(Ranked):
    """How far an answer can be trusted: that of the weakest thing it stands on."""

    ASSUMED = "assumed"  # a remedy promises it
    LIKELY = "likely"  # inferred: a version, a product name
    CERTAIN = "certain"  # read or asked


class Source(Struct, frozen=True):
    """One thing an answer stands on: a file, a command's output, an inference, a promise."""

    name: str  # path without leading slash, a command line, or words
    locator: str = ""  # the place in it: a section, a key, a line number
    text: str = ""  # what stands there, short enough to print
    confidence: Confidence = Confidence.CERTAIN
    lines: tuple[int, ...] = ()  # from 1, of the text that the host was made of; () where it is all of it


class TextOrigin(Struct, frozen=True):
    """Where a file or an output stands in the text that a host was made of."""

    lines: tuple[int, ...]  # of the text, one for each line of the content
    title: str = ""  # how to speak of it, where its path is made up
    numbered: bool = True  # the title needs the line's number to say where

    def line(self, number: int) -> int:
        """The line of the text for one of the content, both from 1."""
        return self.lines[min(number, len(self.lines)) - 1]


class MissingReason(enum.StrEnum):
    """Why something is not known."""

    NOT_COLLECTED = "not-collected"  # nobody looked
    ABSENT = "absent"  # looked for, and not there
    DENIED = "denied"  # there, but not for this user
    GARBLED = "garbled"  # there, but not what it should be
    TIMED_OUT = "timed-out"
    TRUNCATED = "truncated"
    STALE = "stale"  # true once; a step supposed since then may have changed it
    UNDECIDED = "undecided"  # seen, but it does not settle the question


class QuestionKind(enum.StrEnum):
    """What a question wants of its source."""

    READ = "read"  # the content of a file
    LIST = "list"  # names, or whether there is one
    RUN = "run"  # the output of a command, or anything else


class Missing(Struct, frozen=True):
    """What is not known, why not, and the one command that would tell."""

    source: str
    why: MissingReason
    ask: str
    kind: QuestionKind = QuestionKind.RUN
    note: str = ""  # what a host adds to the command that it names


class EvidenceMissing(Exception):
    """Carries a Missing out of a fact or a rule; `Node` turns it into a value at once."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing)
        self.missing = missing


class EvidenceAbsent(EvidenceMissing):
    """Looked for, and not there: a fact for who catches it, merely missing for who does not."""


class Command(Struct, frozen=True):
    """A command whose output is evidence: how to run it, and where bundles keep its output."""

    argv: tuple[str, ...]
    files: tuple[str, ...]  # under sos_commands/, best first; the first is where `gdr collect` writes

    @property
    def line(self) -> str:
        return " ".join(self.argv)


class Host(Protocol):
    """Where a node's evidence lies. Paths are relative to its root, with no leading slash.

    Each method raises EvidenceAbsent for what is not there, EvidenceMissing for what was not looked for or
    is not readable.
    """

    source: str
    """What kind of target this is: live, tree, bundle, sosreport, bug-report, ssh, rdma-topo, pasted."""

    def read(self, path: str) -> bytes:
        """The whole content of a file."""

    def map(self, path: str) -> memoryview:
        """The same without a copy where the host can; for module files and libraries."""

    def list(self, path: str) -> tuple[str, ...]:
        """Names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there. Raises EvidenceMissing where nobody looked; never
        EvidenceAbsent."""

    def resolve(self, path: str) -> str:
        """The path with every symbolic link followed, still inside the root."""

    def run(self, command: Command) -> bytes:
        """Standard output of a command that succeeded; of a failed one, EvidenceMissing that quotes its
        complaint."""

    def origin(self, name: str) -> TextOrigin | None:
        """Where a file or an output, by the name under which facts cite it, stands in the text that this
        host was made of. None where there is none: the content is what somebody sees."""
