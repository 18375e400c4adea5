"""The first line about a fleet: how many nodes need something, and what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.fleet.document import READY_NOW, SILENT, WELL, FleetReport, Standing
from gdrkit.fleet.hostlist import fold
from gdrkit.fleet.judge import is_of_shared_name
from gdrkit.formats.duration import duration
from gdrkit.formats.plural import plural

WORDS = {Standing.NEXT_BOOT: READY_NOW, Standing.WARNINGS: "with warnings"}
IN_GROUPS = {Standing.WARNINGS: "with warnings"}
"""Where WORDS have no room: a standing as the groups below the line call it."""


def in_need(report: FleetReport) -> str:
    """How many nodes need something."""
    total, need = len(report.nodes), sum(row.standing not in WELL for row in report.nodes)
    if not total:
        return "No node was judged"
    if not need:
        return f"None of {total} nodes needs anything" if total > 1 else "The node needs nothing"
    return f"{need} of {plural(total, 'node')} {'needs' if need == 1 else 'need'} something"


def headline(report: FleetReport, room: int = 1000) -> str:
    """How many nodes need something, and how many there are of each standing, the most urgent first. What
    has no room is left out whole, the least needed first: how long it took, the nodes that need nothing, the
    long word for a standing; then the least urgent standings are added up."""
    return next((words for words in _headlines(report) if len(words) <= room), in_need(report))


def _headlines(report: FleetReport) -> Iterator[str]:
    """The headline in fewer and fewer words."""
    counts = [(standing, count) for standing in Standing if (count := report.counts.get(standing))]
    need = [(standing, count) for standing, count in counts if standing not in WELL]
    well = [(standing, count) for standing, count in counts if standing in WELL]
    whole = _stated(report, _in_words(need), _in_words(well))
    if report.seconds:
        yield f"{whole} (judged in {duration(report.seconds)})"
    yield whole
    yield _stated(report, _in_words(need))
    named = [f"{count} {IN_GROUPS.get(standing, standing)}" for standing, count in need]
    yield _stated(report, ", ".join(named))
    for first in range(len(need) - 2, 0, -1):
        others = sum(count for _, count in need[first:])
        yield _stated(report, ", ".join((*named[:first], f"{others} others")))


def _in_words(counts: Iterable[tuple[Standing, int]]) -> str:
    return ", ".join(f"{count} {WORDS.get(standing, standing)}" for standing, count in counts)


def _stated(report: FleetReport, *parts: str) -> str:
    """How many nodes need something, with what is known of them."""
    return ": ".join(filter(None, (in_need(report), "; ".join(filter(None, parts)))))


def repeated(report: FleetReport) -> list[str]:
    """For each host name of several rows, which they are: the counts have such a node more than once."""
    rows: dict[str, list[str]] = {}
    for row in report.nodes:
        if is_of_shared_name(row):
            rows.setdefault(row.calls_itself, []).append(row.name)
    asked = {row.name for row in report.nodes}
    for host in asked & rows.keys():
        rows[host].append(host)
    return [f"Host name {host} appears {len(names)} times: {fold(names)}" for host, names in rows.items()]


def interrupted(report: FleetReport) -> str:
    """What is missing of a run that did not end, and how to go on."""
    silent = plural(sum(report.counts.get(standing, 0) for standing in SILENT), "node")
    return f"Interrupted: {silent} without an answer; `gdr fleet doctor --resume` asks again"
