"""What launchers print in the logs of a job: torchrun's tables, which name the process that failed first,
lines of Slurm, and commands of kubectl; and whether these and others show an EFA."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats.regex import regex
from gdrkit.messages.process_ends import TABLE, TABLE_LINES, FirstFailure, first_failures
from gdrkit.programs.aws_ofi_nccl.messages import SHOWS_EFA

MOST_LINES = 20_000
"""Lines of tables that are kept: each launcher, one a node, prints at most one table."""
LINE_BYTES = 2048
MARK = TABLE.encode()
SLURM = (b"slurmstepd: ", b"srun: ", b"SLURM_")
_LABELLED = regex(rb"\s{0,4}\d{1,5}: +[^\s:]{1,255}:\d{1,10}:\d{1,10} \[", re.ASCII)
"""How `srun --label` prints a line of NCCL: src/common/write_labelled_message.c."""

_KUBECTL = regex(rb"\bkubectl\b[^\n|]{0,200}?\b(?:logs|exec|pods?)\b(?P<words>[^\n|]{0,400})")
MOST_PODS = 1000


def pods_named(text: bytes) -> set[str]:
    """The words, names of pods among them, of commands of kubectl about a pod."""
    found = (one["words"].partition(b" -- ")[0].split() for one in _KUBECTL.finditer(text))
    return {word.rpartition(b"/")[2].decode("utf-8", "replace") for words in found for word in words}


_EFA = regex(SHOWS_EFA.encode())
_OF_EFA = (b"amazonaws.com/efa", b"rdmap", b"xlarge", b"=efa")
"""What every text about an EFA has, and few logs: only there the pattern is tried."""


def shows_efa(text: bytes) -> bool:
    """Whether a text shows that its hosts have an EFA."""
    return any(mark in text for mark in _OF_EFA) and _EFA.search(text) is not None


class FailureTables(Struct):
    """The lines of these tables, by their positions in the tally."""

    lines: dict[int, str] = {}
    section: int = -1
    left: int = 0  # lines that the last table of this section may still have
    slurm: bool = False
    pods: set[str] = set()
    efa: bool = False

    def feed(self, chunk: bytes, base: int) -> None:
        """Keep the lines of tables; one may begin in a chunk and end in another. `base`: where the chunk
        begins."""
        if not self.slurm:
            labelled = _LABELLED.match(chunk, chunk.find(b"\n") + 1)
            self.slurm = labelled is not None or any(mark in chunk for mark in SLURM)
        if b"kubectl" in chunk and len(self.pods) < MOST_PODS:
            self.pods |= pods_named(chunk)
        self.efa = self.efa or shows_efa(chunk)
        self.left = self.left if base >> 40 == self.section else 0
        self.section = base >> 40
        if not self.left and MARK not in chunk:
            return
        for number, line in enumerate(chunk.split(b"\n")):
            if MARK in line:
                self.left = 1 + TABLE_LINES
            if self.left and len(self.lines) < MOST_LINES:
                self.left -= 1
                self.lines[base + number] = line[:LINE_BYTES].decode("utf-8", "replace").rstrip("\r")

    def add(self, other: FailureTables) -> None:
        """Add what another tally has."""
        self.lines.update(other.lines)
        self.slurm = self.slurm or other.slurm
        self.pods |= other.pods
        self.efa = self.efa or other.efa

    def first(self) -> Iterator[FirstFailure]:
        """The process that failed first, by the first table that says why; else by the first table."""
        found = list(first_failures(sorted(self.lines.items())))
        yield from sorted(found, key=lambda one: not one.by_itself)[:1]
