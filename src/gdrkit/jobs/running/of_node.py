"""The processes of a node, for commands that judge the node as a whole."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.commands import RUNNING
from gdrkit.formats.errors import FormatError
from gdrkit.jobs.running.document import PsDocument
from gdrkit.jobs.running.judge import document
from gdrkit.jobs.running.record import decode
from gdrkit.node import Node
from gdrkit.report.document import ProcessInUse


def running(node: Node) -> PsDocument | None:
    """The processes that run, or ran when the evidence was collected; None if no record shows them."""
    try:
        return document(decode(node.run(RUNNING).encode()))
    except (EvidenceMissing, FormatError):
        return None


def direct_processes(node: Node) -> tuple[ProcessInUse, ...]:
    """The processes that are seen to use a direct path."""
    found = running(node)
    return tuple(
        ProcessInUse(
            pid=one.pid, name=one.name, job=one.job.label if one.job.kind else "",
            devices=tuple(held.device for held in one.devices), path=one.verdict.registered_by,
            confidence=one.verdict.confidence, because=one.verdict.because,
        )
        for one in (found.processes if found else ())
        if one.verdict.way == "direct" and one.verdict.confidence is not None
    )  # fmt: skip


SLOWEST_FIRST = ("socket", "staged", "direct", "host-mapped", "nvlink")


def ways_of_jobs(node: Node) -> dict[str, str]:
    """The slowest way that is seen of each job's processes; a job of which none is known is left out."""
    found = running(node)
    return {
        one.job.label: way
        for one in (found.jobs if found else ())
        if (way := next((way for way in SLOWEST_FIRST if one.ways.get(way)), ""))
    }
