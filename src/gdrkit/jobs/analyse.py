"""From counted lines to the verdict on a job."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from gdrkit.jobs.errors import BLOCKING, errors
from gdrkit.jobs.findings import findings
from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.job import (
    JobAnalysis,
    JobError,
    JobPart,
    LegCounts,
    LegReason,
    LoggedKinds,
    LogPosition,
    MisleadingLine,
    State,
)
from gdrkit.jobs.misleading import misleading
from gdrkit.jobs.parts import parts
from gdrkit.jobs.reasons import ReasonFinder
from gdrkit.jobs.tally import Tally
from gdrkit.messages import nccl_records as said
from gdrkit.messages.nccl_records import OVER_NETWORK, Carrier

INDIRECT = (Carrier.BOUNCED, Carrier.SOCKET)


def analyse(tally: Tally, where: Callable[[int], LogPosition]) -> JobAnalysis:
    """What the counted logs prove. `where` knows the line behind a place of the tally's."""
    gathered = GatheredRanks(tally, where)
    ranks = gathered.ranks()
    jobs = parts(gathered, ranks)
    for job in jobs:
        why = ReasonFinder(gathered, job.nccl_versions[0] if len(job.nccl_versions) == 1 else "")
        for rank in job.ranks:
            rank.routes = tuple(
                replace(route, reasons=why.of(rank, route)) if route.carried in INDIRECT else route
                for route in rank.routes
            )
    counts = _counts(jobs)
    failed = errors(gathered)
    return JobAnalysis(
        jobs=jobs,
        counts=counts,
        state=_state(counts, failed),
        findings=findings(gathered, jobs, failed),
        errors=failed,
        misleading=[*_claimed_sockets(jobs), *misleading(gathered, counts)],
        damaged=tally.damaged + gathered.cut_lines,
        first_damaged=where(tally.first_damaged) if tally.damaged else None,
        logged=_logged(gathered, jobs),
        refused=[] if counts.direct or counts.bounced or counts.socket else _refused(gathered),
    )


def _counts(jobs: list[JobPart]) -> LegCounts:
    """Legs by what carries them: the worst that a rank's channel has in one direction."""
    totals = dict.fromkeys(OVER_NETWORK, 0)
    most = 0
    for rank in (rank for job in jobs for rank in job.ranks):
        legs: dict[tuple[str, int], int] = {}
        for route in rank.routes:
            if route.carried not in OVER_NETWORK:
                continue
            worst = OVER_NETWORK.index(route.carried)
            for channel in route.channels:
                key = route.direction, channel
                legs[key] = max(worst, legs.get(key, 0))
        most = max(most, len({channel for _, channel in legs}))
        for worst in legs.values():
            totals[OVER_NETWORK[worst]] += 1
    present = sum(len(job.ranks) for job in jobs)
    expected = sum(max(job.expected or 0, len(job.ranks)) for job in jobs)
    return LegCounts(
        ranks=present, expected=expected, channels=most, direct=totals[Carrier.DIRECT],
        bounced=totals[Carrier.BOUNCED], socket=totals[Carrier.SOCKET], unknown=expected - present,
    )  # fmt: skip


def _state(counts: LegCounts, failed: list[JobError]) -> State:
    """active: every leg is direct. blocked: one is not, or GPU memory was refused. Else unknown."""
    if counts.bounced or counts.socket or any(error.call in BLOCKING for error in failed):
        return "blocked"
    return "active" if counts.direct else "unknown"


def _refused(gathered: GatheredRanks) -> list[tuple[str, LegReason]]:
    """What NCCL refused, in logs that have no channel over a network: often an excerpt."""
    processes = gathered.processes.values()
    versions = {found.text for process in processes for found in process.all(said.Version)}
    why = ReasonFinder(gathered, versions.pop() if len(versions) == 1 else "")
    return [(process.name, reason) for process in processes for reason in why.refused(process)]


def _claimed_sockets(jobs: list[JobPart]) -> list[MisleadingLine]:
    """GDRDMA over a socket: a topology file says that it can, and no bytes go that way."""
    places = [
        route.line
        for job in jobs
        for rank in job.ranks
        for route in rank.routes
        if route.carried is Carrier.SOCKET and route.how
    ]
    if not places:
        return []
    truth = "a topology file says that the socket can; TCP copies through host memory all the same"
    return [
        MisleadingLine(words="via NET/Socket/.../GDRDMA", truth=truth, count=len(places), line=min(places))
    ]


def _logged(gathered: GatheredRanks, jobs: list[JobPart]) -> LoggedKinds:
    """Which kinds of lines are there at all."""

    def any_of(*kinds: type) -> bool:
        return any(process.records.get(kind) for process in gathered.processes.values() for kind in kinds)

    return LoggedKinds(
        channels=any(rank.routes for job in jobs for rank in job.ranks),
        net=any_of(said.NetDevice, said.PairLine, said.FusedDevice),
        env=any_of(said.Variable),
        init=any_of(said.Communicator, said.Network),
    )
