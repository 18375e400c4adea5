"""Calls and transfers that failed: how often, where first, what that means, and what can cause it."""

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
    """Every kind of failure, those that follow from others last, else by their first line."""
    found: dict[tuple[str, int | None, int | None], list[tuple[str, Failure, TallyEntry]]] = defaultdict(
        list
    )
    for process in gathered.processes.values():
        for failure, entry in process.all(Failure).items():
            found[failure.call, failure.number, failure.vendor_error].append((process.name, failure, entry))
    made = []
    for (call, number, vendor), seen in found.items():
        known = _failing(call, number)
        first = min((entry for _, _, entry in seen), key=lambda entry: entry.place)
        made.append(
            JobError(
                call=call, number=number, vendor_error=vendor, meaning=known.meaning, codes=known.causes,
                ranks=len({name for name, _, _ in seen}),
                count=sum(max(1, entry.count) for _, _, entry in seen),
                line=gathered.where(first.place), words=first.words,
            )
        )  # fmt: skip
    return sorted(made, key=lambda error: (_failing(error.call, error.number).follows, error.line))


def _failing(call: str, number: int | None) -> FailureMeaning:
    unknown = FailureMeaning("")
    return unknown if number is None else FAILINGS.get((call, number), unknown)
