"""The jobs in the same logs, distinguished by their communicators."""

from __future__ import annotations

from collections import defaultdict

from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.job import JobPart, Rank
from gdrkit.jobs.line_counts import LogUnit
from gdrkit.programs.nccl import log_records as nccl_records


def parts(gathered: GatheredRanks, ranks: list[Rank]) -> list[JobPart]:
    """Each job, with its ranks in order. Communicators that share a process belong to one job."""
    groups = _groups(gathered, ranks)
    found = []
    for number, group in enumerate(groups, 1):
        group.sort(key=lambda r: (r.rank is None, r.rank or 0, r.process, r.cuda_device or 0))
        identifiers = {c.identifier for r in group for c in _communicators(gathered, r)}
        size = max((_size(gathered, r) for r in group), default=0)
        found.append(
            JobPart(
                number=number, nccl_versions=(), communicators=len(identifiers), at_least=not size,
                expected=size or _named(gathered, group) or None, ranks=group,
                networks=tuple(sorted({one.network for r in group for one in r.legs if one.network})),
            )
        )  # fmt: skip
    _versions(gathered, found)
    return found


def _communicators(gathered: GatheredRanks, rank: Rank) -> dict[nccl_records.Communicator, int]:
    return gathered.communicators.get(LogUnit(rank.process, rank.cuda_device), {})


def _size(gathered: GatheredRanks, rank: Rank) -> int:
    """The number of ranks in a rank's largest communicator; 0 if no line shows it."""
    placements = gathered.processes[rank.process].all(nccl_records.Placement)
    sizes = [one.ranks for one in _communicators(gathered, rank)] + [one.ranks for one in placements]
    return max(sizes, default=0)


def _named(gathered: GatheredRanks, ranks: list[Rank]) -> int:
    """The fewest ranks that a communicator has whose channels name these ranks and their peers, of which
    each prints what it does itself; 0 without a channel."""
    units = (LogUnit(rank.process, rank.cuda_device) for rank in ranks)
    return max((gathered.highest[unit] + 1 for unit in units if unit in gathered.highest), default=0)


def _groups(gathered: GatheredRanks, ranks: list[Rank]) -> list[list[Rank]]:
    """Ranks grouped by processes and identifiers of communicators; without identifiers, by their numbers."""
    roots: dict[str, str] = {}

    def root(name: str) -> str:
        while roots.setdefault(name, name) != name:
            roots[name] = roots[roots[name]]
            name = roots[name]
        return name

    named: dict[str, bool] = {}
    for rank in ranks:
        for communicator in _communicators(gathered, rank):
            if communicator.identifier:
                one, other = sorted((root(rank.process), root(f" {communicator.identifier}")))
                roots[other] = one
                named[rank.process] = True
    linked: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        linked[root(rank.process) if rank.process in named else ""].append(rank)
    loose = linked.pop("", [])
    if len(linked) == 1 and not any(_size(gathered, rank) for rank in loose):
        group = next(iter(linked.values()))
        others = _of_other_gpus(gathered, group, loose)
        apart = set(map(id, others))
        group.extend(rank for rank in loose if id(rank) not in apart)
        loose = others
    every = [*linked.values(), *_by_number(gathered, loose)]
    return sorted(every, key=lambda group: min(_first(gathered, rank) for rank in group))


def _of_other_gpus(gathered: GatheredRanks, group: list[Rank], loose: list[Rank]) -> list[Rank]:
    """The loose ranks that are of another communicator than a group's only one, in which channels name
    another GPU for their numbers: as in a log of which each host prints other communicators."""
    if len({one.identifier for rank in group for one in _communicators(gathered, rank)}) != 1:
        return []
    members = {LogUnit(rank.process, rank.cuda_device) for rank in group}
    own: dict[LogUnit, str] = {}
    named: dict[int, set[str]] = defaultdict(set)
    for (number, _), first in gathered.tally.firsts.items():
        unit = gathered.units[number]
        own[unit] = own.get(unit) or first.gpu
        if unit in members and first.peer is not None and first.peer_gpu:
            named[first.peer].add(first.peer_gpu)

    def differs(rank: Rank) -> bool:
        gpu = own.get(LogUnit(rank.process, rank.cuda_device), "")
        said = named.get(rank.rank, set()) if rank.rank is not None else set()
        return bool(gpu and said) and gpu not in said

    return [rank for rank in loose if differs(rank)]


def _by_number(gathered: GatheredRanks, ranks: list[Rank]) -> list[list[Rank]]:
    """Ranks of logs without identifiers: a second rank 0 of the same size begins a second job."""
    found: list[list[Rank]] = []
    taken: list[set[object]] = []
    for rank in sorted(ranks, key=lambda rank: (_first(gathered, rank), rank.process)):
        size = _size(gathered, rank)
        key = (rank.rank, size) if rank.rank is not None and size else (rank.process, rank.cuda_device)
        job = next((i for i, keys in enumerate(taken) if key not in keys), len(found))
        if job == len(found):
            found.append([])
            taken.append(set())
        found[job].append(rank)
        taken[job].add(key)
    return found


def _first(gathered: GatheredRanks, rank: Rank) -> int:
    """The position of the first record of a rank's process."""
    return gathered.first_position(rank.process)


def _versions(gathered: GatheredRanks, jobs: list[JobPart]) -> None:
    """Sets the versions that a job's processes print; one without a process belongs to the job that begins
    nearest to it."""
    starts = [min(_first(gathered, rank) for rank in job.ranks) for job in jobs]
    members = [{rank.process for rank in job.ranks} for job in jobs]
    own: list[dict[str, None]] = [{} for _ in jobs]
    for process in gathered.processes.values():
        for version, entry in process.all(nccl_records.Version).items():
            holders = [i for i, names in enumerate(members) if process.name in names]
            if not holders and jobs:
                apart = [abs(start - entry.position) for start in starts]
                holders = [apart.index(min(apart))]
            for i in holders:
                own[i][version.text] = None
    every = {version for versions in own for version in versions}
    for job, versions in zip(jobs, own, strict=True):
        job.nccl_versions = tuple(sorted(versions or (every if len(every) == 1 else ())))
