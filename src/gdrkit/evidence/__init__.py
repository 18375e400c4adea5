"""What was read from a node, what is missing, and why. No machine is touched here."""

from __future__ import annotations

import enum
from typing import Protocol, Self

from msgspec import Struct

from gdrkit.evidence.ranked import Ranked


class Confidence(Ranked):
    """How far an answer can be trusted: as far as the weakest evidence for it."""

    ASSUMED = "assumed"  # expected result of a remedy
    LIKELY = "likely"  # inferred, for example from a version or a product name
    CERTAIN = "certain"  # read from a file or answered by a command


class Source(Struct, frozen=True):
    """One piece of evidence for an answer: a file, a command's output, an inference, an assumption."""

    name: str  # path without leading slash, a command line, or a description
    locator: str = ""  # position within it: a section, a key, a line number
    text: str = ""  # an excerpt, short enough to print
    confidence: Confidence = Confidence.CERTAIN
    lines: tuple[
        int, ...
    ] = ()  # line numbers, from 1, in the text that the host was built from; () for the whole text


class TextOrigin(Struct, frozen=True):
    """The lines that a file or an output takes up in the text that a host was built from."""

    lines: tuple[int, ...]  # in the text, one for each line of the content
    title: str = ""  # what to print where its path is invented
    numbered: bool = True  # print the line number after the title

    def line(self, number: int) -> int:
        """The line in the text for a line of the content, both from 1."""
        return self.lines[min(number, len(self.lines)) - 1]


class MissingReason(enum.StrEnum):
    """Why something is not known."""

    NOT_COLLECTED = "not-collected"  # not looked for, or not in this bundle
    ABSENT = "absent"  # looked for, does not exist
    DENIED = "denied"  # exists, but this user may not read it
    GARBLED = "garbled"  # exists, but is not valid
    TIMED_OUT = "timed-out"
    TRUNCATED = "truncated"
    STALE = "stale"  # read before a simulated repair step that may have changed it
    UNDECIDED = "undecided"  # read, but inconclusive


class QuestionKind(enum.StrEnum):
    """What kind of answer a question expects."""

    READ = "read"  # the content of a file
    LIST = "list"  # names in a directory, or whether a path exists
    RUN = "run"  # the output of a command, or anything else


class Missing(Struct, frozen=True):
    """What is not known, why not, and the command to find out."""

    source: str
    why: MissingReason
    ask: str
    kind: QuestionKind = QuestionKind.RUN
    note: str = ""  # the host's remark on the command


class EvidenceMissing(Exception):
    """Raised by a fact or a rule whose evidence is missing; `Node` turns it into a value."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing)
        self.missing = missing

    def fresh(self) -> Self:
        """The same, to keep or to raise again, without the frames that this one went through.

        They refer to the node: with them, only a garbage collection could free what a node takes."""
        self.__traceback__ = None
        return type(self)(self.missing)


class EvidenceAbsent(EvidenceMissing):
    """The evidence was looked for and does not exist.

    A caller that catches it has a fact; for any other caller the evidence is missing."""


class Command(Struct, frozen=True):
    """A command whose output is evidence: how to run it, and where bundles keep its output."""

    argv: tuple[str, ...]
    files: tuple[str, ...]  # under sos_commands/, best first; the first is where `gdr collect` writes

    @property
    def line(self) -> str:
        return " ".join(self.argv)


class Host(Protocol):
    """Access to a node's evidence. Paths are relative to its root, with no leading slash.

    Each method raises EvidenceAbsent if the path does not exist, EvidenceMissing if it was not collected or
    may not be read.
    """

    source: str
    """What kind of target this is: live, tree, bundle, sosreport, bug-report, ssh, rdma-topo, pasted."""

    def read(self, path: str) -> bytes:
        """The whole content of a file."""

    def map(self, path: str) -> memoryview:
        """The content of a file, without a copy where the host can; for module files and libraries."""

    def list(self, path: str) -> tuple[str, ...]:
        """Names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory exists. Raises EvidenceMissing if that is not known; never
        EvidenceAbsent."""

    def resolve(self, path: str) -> str:
        """The path with every symbolic link followed, still inside the root."""

    def run(self, command: Command) -> bytes:
        """Standard output of a command. Raises EvidenceMissing, quoting the error message, if it failed."""

    def origin(self, name: str) -> TextOrigin | None:
        """The lines that a file or an output takes up in the text that this host was built from.

        `name` is the one that facts cite. None if the host was not built from a text."""
