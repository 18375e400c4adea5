"""Jobs whose processes go different ways on different nodes: one node that stages slows all of them."""

from __future__ import annotations

from collections.abc import Sequence

from gdrkit.fleet.document import NodeRow, TraitMismatch, TraitValue
from gdrkit.fleet.hostlist import fold

WORDS = {"direct": "direct", "staged": "through host memory", "socket": "TCP", "host-mapped": "host-mapped"}
SHOWS_AS = "the job is as slow as its slowest node"


def job_mismatches(rows: Sequence[NodeRow]) -> tuple[TraitMismatch, ...]:
    """A row for each job whose nodes go different ways, the way of most nodes first. A node on which a job's
    way is not known does not count."""
    jobs: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for job, way in row.jobs.items():
            jobs.setdefault(job, {}).setdefault(way, []).append(row.name)
    return tuple(
        TraitMismatch(
            trait=f"way of {job}", shows_as=SHOWS_AS, versions="",
            values=tuple(
                TraitValue(value=WORDS.get(way, way), count=len(names), nodes=fold(names))
                for way, names in sorted(ways.items(), key=lambda item: (-len(item[1]), item[0]))
            ),
        )
        for job, ways in sorted(jobs.items())
        if len(ways) > 1
    )  # fmt: skip
