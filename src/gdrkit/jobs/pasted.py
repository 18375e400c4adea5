"""The job of an NCCL log in a pasted text, which may have other parts, such as what a person wrote."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.facts.nccl_lines import frame, is_framed, record
from gdrkit.jobs.analyse import analyse
from gdrkit.jobs.document import NcclDocument, document
from gdrkit.jobs.job import LogPosition
from gdrkit.jobs.tally import Tally
from gdrkit.jobs.wrapping import Unwrapper

MOSTLY = 0.5
"""The share of a log's lines that NCCL prints: between them are empty lines and those of the program."""


class PastedJob(Struct, frozen=True):
    """What a log in a text proves, and whether the text is a log and nothing else."""

    document: NcclDocument
    is_whole_text: bool


def pasted_job(content: bytes, name: str) -> PastedJob | None:
    """The job of the log in a text; None if a text with other parts has no log that decides anything.

    In a text with other parts, only lines with the process that printed them count: those without one may
    be examples."""
    whole = Unwrapper(content).feed(content)
    lines = whole.decode("utf-8", "replace").splitlines()
    framed = [line if is_framed(line) else "" for line in lines]
    printed = sum(is_framed(line) or record(frame(line).message) is not None for line in lines)
    is_log = printed >= MOSTLY * sum(1 for line in lines if line.strip())
    kept = lines if is_log else [line if frame(line).process else "" for line in framed]
    tally = Tally()
    tally.feed("\n".join((*kept, "")).encode(), 0)
    found = document(analyse(tally, lambda position: LogPosition(name, position)))
    decided = found.verdict.state != "unknown" or found.refused or found.why_not_direct
    return PastedJob(found, is_log) if decided or is_log else None
