"""The job of an NCCL log in a pasted text, which may have other parts, such as what a person wrote."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gdrkit.jobs.analyse import analyse
from gdrkit.jobs.document import Causes, NcclDocument, document
from gdrkit.jobs.failure_tables import pods_named, shows_efa
from gdrkit.jobs.job import LogPosition
from gdrkit.jobs.line_counts import Tally
from gdrkit.jobs.runtime_prefixes import Unwrapper
from gdrkit.jobs.written import NcclText, nccl_text


class PastedJob(Struct, frozen=True):
    """What a log in a text proves."""

    log: NcclDocument
    document: NcclDocument  # the same, with the causes that the rest of the text leaves
    text: NcclText

    @property
    def decides(self) -> bool:
        """Whether the log decides anything, or is the whole text."""
        found = self.log
        shows = found.refused or found.why_not_direct or found.errors or found.diagnostics or found.ucx
        direct = found.counts.direct or found.counts.nvlink
        return self.text.is_log or found.verdict.state != "unknown" or bool(shows or direct)


def pasted_job(
    content: bytes, name: str, left: Callable[[Causes], Causes], number: Callable[[int], int]
) -> PastedJob:
    """The job of the log in a text. `left`: the causes of a line that the rest of the text leaves;
    `number`: the number of a line of the content.

    In a text with other parts, only lines with the process that printed them count: those without one may
    be examples."""
    text = nccl_text(Unwrapper(content).feed(content))
    tally = Tally()
    tally.feed("\n".join((*text.lines, "")).encode(), 0)
    tally.failures.pods |= pods_named(content)
    tally.failures.efa = shows_efa(content)
    found = analyse(tally, lambda position: LogPosition(name, number(position)))
    return PastedJob(document(found), document(found, left), text)
