"""Calls and transfers that failed: their number, first line, meaning and possible causes."""

from __future__ import annotations

from collections import defaultdict

from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.job import JobError
from gdrkit.jobs.tally import TallyEntry
from gdrkit.messages.nccl_records import Failure
from gdrkit.messages.verbs import FAILINGS, FailureMeaning

BLOCKING = ("ibv_reg_mr", "ibv_reg_dmabuf_mr")
"""Calls without which there is no direct path."""


def errors(gathered: GatheredRanks) -> list[JobError]:
    """Every kind of failure by its first line; those that only follow from others last."""
    found: dict[tuple[str, int | None, int | None], list[tuple[str, Failure, TallyEntry]]] = defaultdict(
        list
    )
    for process in gathered.processes.values():
        for failure, entry in process.all(Failure).items():
            found[failure.call, failure.number, failure.vendor_error].append((process.name, failure, entry))
    made = []
    for (call, number, vendor), seen in found.items():
        known = _failing(call, number)
        first = min((entry for _, _, entry in seen), key=lambda entry: entry.position)
        made.append(
            JobError(
                call=call, number=number, vendor_error=vendor, meaning=known.meaning, codes=known.causes,
                ranks=len({name for name, _, _ in seen}),
                count=sum(max(1, entry.count) for _, _, entry in seen),
                line=gathered.where(first.position), words=first.words,
            )
        )  # fmt: skip
    return sorted(made, key=lambda error: (_failing(error.call, error.number).follows, error.line))


def _failing(call: str, number: int | None) -> FailureMeaning:
    unknown = FailureMeaning("")
    return unknown if number is None else FAILINGS.get((call, number), unknown)
