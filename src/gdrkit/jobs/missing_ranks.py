"""Which ranks of a job have no line in its logs, and on which hosts they are, as far as lines show that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gdrkit.formats.number_ranges import number_ranges
from gdrkit.formats.plural import plural
from gdrkit.jobs.gather import GatheredRanks, JobProcess
from gdrkit.jobs.job import JobPart, MissingRanks
from gdrkit.programs.nccl.log_records import GpuName, Placement

NAMED = 8
"""Processes that are named one by one."""
MOST_RANKS = 100_000
"""The largest job of which ranks are named: a number in a log can be any."""


def missing_ranks(gathered: GatheredRanks, job: JobPart, *, alone: bool) -> MissingRanks | None:
    """The ranks that a job lacks; None if it lacks none, or no line shows its size. `alone`: the logs have
    no other job, so that what they list is of this one."""
    count = (job.expected or 0) - len(job.ranks)
    if count <= 0:
        return None
    silent = _silent(gathered, job, count) if alone else []
    return MissingRanks(
        count=count,
        numbers=_numbers(job),
        hosts=tuple(sorted({*_short_hosts(gathered, job), *(one.host for one in silent)})),
        other_hosts=_other_hosts(gathered, job),
        processes=tuple(one.name for one in silent if not one.all(GpuName)) if len(silent) == count else (),
    )


def _numbers(job: JobPart) -> str:
    """The numbers that no rank has; "" where those of the others are not all known, or are of several
    communicators."""
    expected = job.expected or 0
    present = {rank.rank for rank in job.ranks}
    if None in present or len(present) < len(job.ranks) or expected > MOST_RANKS:
        return ""
    left = set(range(expected)) - present
    return number_ranges(left) if len(left) == expected - len(present) else ""


def _placements(gathered: GatheredRanks, job: JobPart) -> Iterator[tuple[str, Placement]]:
    """Each host, and where it places the ranks of the job. In an NVLink domain a node is not a host."""
    for name in {rank.process for rank in job.ranks}:
        process = gathered.processes[name]
        for one in process.all(Placement):
            if one.ranks == job.expected and not one.mnnvl:
                yield process.host, one


def _short_hosts(gathered: GatheredRanks, job: JobPart) -> Iterator[str]:
    """Hosts of the logs with fewer ranks than their own lines count there."""
    present = Counter(rank.host for rank in job.ranks)
    for host, placement in _placements(gathered, job):
        if host and present[host] < placement.local_ranks:
            yield host


def _other_hosts(gathered: GatheredRanks, job: JobPart) -> int | None:
    """How many hosts of a job have no line; None if no line counts them."""
    nodes = {placement.nodes for _, placement in _placements(gathered, job)}
    hosts = {rank.host for rank in job.ranks}
    if len(nodes) != 1 or "" in hosts:
        return None
    return max(0, nodes.pop() - len(hosts))


def _silent(gathered: GatheredRanks, job: JobPart, count: int) -> list[JobProcess]:
    """The processes that print nothing of a communicator: the head of nccl-tests lists them, or they print
    NCCL's first lines. None, if they are more than the ranks that a job lacks."""
    known = {rank.process for rank in job.ranks}
    silent = [one for one in gathered.processes.values() if one.host and one.name not in known]
    return silent if len(silent) <= count else []


def missing_words(missing: MissingRanks) -> str:
    """`rank 7 is not in the log: it is on gpu-2`."""
    one = missing.count == 1
    what = plural(missing.count, "rank")
    if missing.numbers:
        what = f"{'rank' if one else 'ranks'} {missing.numbers}"
    places = list(missing.hosts)
    if missing.other_hosts:
        places.append(f"{plural(missing.other_hosts, 'host')} without a line")
    if missing.processes:
        some, verb = ", ".join(missing.processes[:NAMED]), "does" if one else "do"
        return (
            f"{what} {verb} not start: {some} {'prints' if one else 'print'} NCCL's first lines, and no Init"
            " START. Look at what the program does there: the others wait for it"
        )
    where = f": {'it is' if one else 'they are'} on {' and '.join(places)}" if places else ""
    return f"{what} {'is' if one else 'are'} not in the log{where}"
