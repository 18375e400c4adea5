"""Connections whose two ends use different NICs: their traffic crosses rails.

A rail is the set of NICs of the same index on all hosts. Source: NCCL src/graph/search.cc, crossNic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.job import JobPart, Leg, LegDirection, RailCrossing, Rank
from gdrkit.jobs.line_counts import FirstSeen, LogUnit
from gdrkit.programs.nccl.log_records import Carrier

ON_RAILS = (Carrier.DIRECT, Carrier.BOUNCED)


def crossing(gathered: GatheredRanks, jobs: Iterable[JobPart]) -> RailCrossing | None:
    """The connections that cross rails, with the first one; None if both ends of none are in the logs, or
    all stay on their rail."""
    found, checked = [], 0
    for job in jobs:
        for crossed in _connections(gathered, job):
            checked += 1
            if crossed is not None:
                found.append(crossed)
    if not found:
        return None
    first = min(found, key=lambda one: one[1].position)
    (sender, receiver), seen, (left, entered) = first
    return RailCrossing(
        count=len(found), checked=checked, channel=seen.channel, sender=sender, receiver=receiver,
        sending_device=left, receiving_device=entered, line=gathered.where(seen.position),
    )  # fmt: skip


_Crossed = tuple[tuple[int, int], FirstSeen, tuple[str, str]]


def _connections(gathered: GatheredRanks, job: JobPart) -> Iterator[_Crossed | None]:
    """Each connection whose two ends are known: the ranks, line and NICs if it crosses rails, else None.

    Rank numbers name ranks only in one communicator. NICs are compared by name, since their order can differ
    between hosts, or by index if a name is not known."""
    ranks = {rank.rank: rank for rank in job.ranks if rank.rank is not None}
    if job.communicators > 1 or len(ranks) < len(job.ranks):
        return
    arriving = {number: _devices(rank, LegDirection.RECEIVE) for number, rank in ranks.items()}
    leaving = {number: _devices(rank, LegDirection.SEND) for number, rank in ranks.items()}
    for unit, seen in _firsts(gathered, job):
        sender = ranks.get(seen.rank)
        if sender is None or LogUnit(sender.process, sender.cuda_device) != unit or seen.peer is None:
            continue
        left = leaving[seen.rank].get(seen.channel)
        entered = arriving.get(seen.peer, {}).get(seen.channel)
        if not left or not entered or len(left) > 1:
            continue
        names = all(leg.device for leg in (*left, *entered))
        crossed = _rails(left, names).isdisjoint(_rails(entered, names))
        yield ((seen.rank, seen.peer), seen, (_name(left[0]), _name(entered[0]))) if crossed else None


def _firsts(gathered: GatheredRanks, job: JobPart) -> Iterator[tuple[LogUnit, FirstSeen]]:
    members = {LogUnit(rank.process, rank.cuda_device) for rank in job.ranks}
    for (number, tail), seen in gathered.tally.firsts.items():
        if gathered.units[number] in members and tail.startswith(b"send]"):
            yield gathered.units[number], seen


def _devices(rank: Rank, direction: LegDirection) -> dict[int, list[Leg]]:
    """The legs of a rank over NICs by channel, for one direction."""
    found: dict[int, list[Leg]] = defaultdict(list)
    for leg in rank.legs:
        if leg.direction is direction and leg.carried in ON_RAILS and not leg.collnet:
            for channel in leg.channels:
                found[channel].append(leg)
    return found


def _rails(legs: Iterable[Leg], names: bool) -> set[str]:
    """The NICs of legs by name or by index. A fused one is on the rails of all its parts."""
    return {part for leg in legs for part in (leg.device.split("+") if names else [str(leg.index)])}


def _name(leg: Leg) -> str:
    return leg.device or f"{leg.network}/{leg.index}"
