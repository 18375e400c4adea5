"""The job of an NCCL log in a pasted text, which may have other parts, such as what a person wrote."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.jobs.analyse import analyse
from gdrkit.jobs.document import NcclDocument, document
from gdrkit.jobs.job import LogPosition
from gdrkit.jobs.line_counts import Tally
from gdrkit.jobs.runtime_prefixes import Unwrapper
from gdrkit.jobs.written import nccl_text


class PastedJob(Struct, frozen=True):
    """What a log in a text proves, and whether the text is a log and nothing else."""

    document: NcclDocument
    is_whole_text: bool


class Example(Struct, frozen=True):
    """That a text has lines of NCCL which may be examples, and no log that decides anything."""


def pasted_job(content: bytes, name: str) -> PastedJob | Example | None:
    """The job of the log in a text; Example or None if a text with other parts has no log that
    decides anything.

    In a text with other parts, only lines with the process that printed them count: those without one may
    be examples."""
    text = nccl_text(Unwrapper(content).feed(content))
    tally = Tally()
    tally.feed("\n".join((*text.lines, "")).encode(), 0)
    found = document(analyse(tally, lambda position: LogPosition(name, position)))
    decided = found.verdict.state != "unknown" or found.refused or found.why_not_direct
    if decided or text.is_log:
        return PastedJob(found, text.is_log)
    return Example() if text.dropped else None
