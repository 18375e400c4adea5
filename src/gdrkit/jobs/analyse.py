"""The verdict on a job, from its counted log lines."""

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
from gdrkit.jobs.job_parts import parts
from gdrkit.jobs.line_counts import Tally
from gdrkit.jobs.misleading import misleading
from gdrkit.jobs.rails import crossing
from gdrkit.jobs.reasons import ReasonFinder
from gdrkit.jobs.without_channel import is_local, network_without_channel
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.log_records import INDIRECT, OVER_NETWORK, Carrier
from gdrkit.programs.nccl.releases import is_newer

BETWEEN_HOSTS = (*OVER_NETWORK, Carrier.NVLINK)


def analyse(tally: Tally, where: Callable[[int], LogPosition]) -> JobAnalysis:
    """The analysis of counted logs. `where` gives the line of a position in the tally."""
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
            if not any(route.carried in BETWEEN_HOSTS for route in rank.routes):
                rank.network_path, rank.network_reasons = network_without_channel(why, rank)
    counts = _counts(jobs)
    failed = errors(gathered)
    return JobAnalysis(
        jobs=jobs,
        counts=counts,
        state=_state(jobs, counts, failed, gathered),
        findings=findings(gathered, jobs, failed),
        errors=failed,
        misleading=[*_claimed_sockets(jobs), *misleading(gathered, counts)],
        damaged=tally.damaged + gathered.cut_lines,
        first_damaged=where(tally.first_damaged) if tally.damaged else None,
        logged=_logged(gathered, jobs),
        refused=[] if _is_decided(jobs, counts) else _refused(gathered),
        crossing=crossing(gathered, jobs),
        newer=tuple(sorted({version for job in jobs for version in job.nccl_versions if is_newer(version)})),
    )


def _counts(jobs: list[JobPart]) -> LegCounts:
    """Legs by what carries them. For a rank's channel and direction, the worst counts."""
    totals = dict.fromkeys(BETWEEN_HOSTS, 0)
    most = 0
    for rank in (rank for job in jobs for rank in job.ranks):
        legs: dict[tuple[str, int], int] = {}
        for route in rank.routes:
            if route.carried not in BETWEEN_HOSTS:
                continue
            worst = BETWEEN_HOSTS.index(route.carried)
            for channel in route.channels:
                key = route.direction, channel
                legs[key] = max(worst, legs.get(key, 0))
        most = max(most, len({channel for _, channel in legs}))
        for worst in legs.values():
            totals[BETWEEN_HOSTS[worst]] += 1
    present = sum(len(job.ranks) for job in jobs)
    expected = sum(max(job.expected or 0, len(job.ranks)) for job in jobs)
    return LegCounts(
        ranks=present, expected=expected, channels=most, direct=totals[Carrier.DIRECT],
        bounced=totals[Carrier.BOUNCED], socket=totals[Carrier.SOCKET], nvlink=totals[Carrier.NVLINK],
        unknown=expected - present,
    )  # fmt: skip


def _state(jobs: list[JobPart], counts: LegCounts, failed: list[JobError], gathered: GatheredRanks) -> State:
    """active: every leg is direct. blocked: a leg is not, or cannot be, or GPU memory was refused. Else
    unknown."""
    unable = any(
        rank.network_path in INDIRECT for job in jobs if not is_local(gathered, job) for rank in job.ranks
    )
    if counts.bounced or counts.socket or unable or any(error.call in BLOCKING for error in failed):
        return "blocked"
    return "active" if counts.direct or counts.nvlink else "unknown"


def _is_decided(jobs: list[JobPart], counts: LegCounts) -> bool:
    """Whether a channel or another line shows what the network uses."""
    if counts.direct or counts.bounced or counts.socket:
        return True
    return any(rank.network_path for job in jobs for rank in job.ranks)


def _refused(gathered: GatheredRanks) -> list[tuple[str, LegReason]]:
    """What NCCL refused, in logs without a channel over a network, which are often excerpts."""
    processes = gathered.processes.values()
    versions = {found.text for process in processes for found in process.all(nccl_records.Version)}
    why = ReasonFinder(gathered, versions.pop() if len(versions) == 1 else "")
    return [(process.name, reason) for process in processes for reason in why.refused(process)]


def _claimed_sockets(jobs: list[JobPart]) -> list[MisleadingLine]:
    """GDRDMA over a socket: a topology file states support, but TCP has no direct path."""
    positions = [
        route.line
        for job in jobs
        for rank in job.ranks
        for route in rank.routes
        if route.carried is Carrier.SOCKET and route.how
    ]
    if not positions:
        return []
    truth = "a topology file states support for the socket, but TCP copies through host memory"
    return [
        MisleadingLine(
            words="via NET/Socket/.../GDRDMA", truth=truth, count=len(positions), line=min(positions)
        )
    ]


def _logged(gathered: GatheredRanks, jobs: list[JobPart]) -> LoggedKinds:
    """Which kinds of lines the logs have."""

    def any_of(*kinds: type) -> bool:
        return any(process.records.get(kind) for process in gathered.processes.values() for kind in kinds)

    return LoggedKinds(
        channels=any(rank.routes for job in jobs for rank in job.ranks),
        net=any_of(nccl_records.NetDevice, nccl_records.PairLine, nccl_records.FusedDevice),
        env=any_of(nccl_records.Variable),
        init=any_of(nccl_records.Communicator, nccl_records.Network),
    )
