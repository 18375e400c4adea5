"""The verdict on a job, from its counted log lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from gdrkit.jobs.connections import connection_remarks
from gdrkit.jobs.diagnostics import located, read_diagnostics
from gdrkit.jobs.errors import BLOCKING, errors, has_ended
from gdrkit.jobs.findings import findings
from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.gpu_names import OF_HARDWARE
from gdrkit.jobs.job import (
    NOT_DIRECT,
    JobAnalysis,
    JobError,
    JobPart,
    LegCounts,
    LegReason,
    LoggedKinds,
    LogPosition,
    MisleadingLine,
    Rank,
    State,
    UcxLegs,
)
from gdrkit.jobs.job_parts import parts
from gdrkit.jobs.line_counts import Tally
from gdrkit.jobs.misleading import misleading
from gdrkit.jobs.missing_ranks import missing_ranks
from gdrkit.jobs.nic_lists import shared_nics, short_nic_lists
from gdrkit.jobs.rails import crossing
from gdrkit.jobs.reasons import ReasonFinder, without_nvidia
from gdrkit.jobs.setting_advice import lone_settings
from gdrkit.jobs.ucx_tables import ucx_legs
from gdrkit.jobs.without_channel import is_local, is_on_one_host, network_without_channel
from gdrkit.jobs.without_dmabuf import without_dmabuf
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.diagnostic_statements import Diagnostics
from gdrkit.programs.nccl.log_records import INDIRECT, OVER_NETWORK, Carrier
from gdrkit.programs.nccl.releases import is_newer

BETWEEN_HOSTS = (*OVER_NETWORK, Carrier.NVLINK)


def analyse(tally: Tally, where: Callable[[int], LogPosition]) -> JobAnalysis:
    """The analysis of counted logs. `where` gives the line of a position in the tally."""
    gathered = GatheredRanks(tally, where)
    ranks = gathered.ranks()
    jobs = parts(gathered, ranks)
    finders: dict[str, ReasonFinder] = {}
    for job in jobs:
        for rank in job.ranks:
            version = _version(gathered, job, rank)
            why = finders.setdefault(version, ReasonFinder(gathered, version))
            rank.legs = tuple(
                replace(leg, reasons=why.of(rank, leg)) if leg.carried in INDIRECT else leg
                for leg in rank.legs
            )
            if not any(leg.carried in BETWEEN_HOSTS for leg in rank.legs):
                rank.network_path, rank.network_reasons = network_without_channel(why, rank)
        job.missing = missing_ranks(gathered, job, alone=len(jobs) == 1)
        job.on_one_host = is_on_one_host(gathered, job)
    counts = _counts(jobs)
    failed = errors(gathered)
    if gathered.is_rccl:
        failed = [replace(error, codes=without_nvidia(error.codes)) for error in failed]
    reports = read_diagnostics(gathered)
    ucx = ucx_legs(tally.tables, where)
    return JobAnalysis(
        jobs=jobs,
        counts=counts,
        state=_with_ucx(_state(jobs, counts, failed, gathered, reports), counts, ucx),
        findings=findings(gathered, jobs, failed, reports),
        lone_settings=lone_settings(gathered, jobs),
        errors=failed,
        ended=has_ended(gathered, failed),
        misleading=[*_claimed_sockets(jobs), *misleading(gathered, counts)],
        damaged=tally.damaged + gathered.cut_lines,
        hidden=tally.hidden,
        first_damaged=where(tally.first_damaged) if tally.damaged else None,
        logged=_logged(gathered, jobs),
        refused=[] if _is_decided(jobs, counts) else _refused(gathered),
        crossing=crossing(gathered, jobs),
        short_nic_lists=short_nic_lists(gathered, jobs),
        shared_nics=shared_nics(gathered, jobs),
        without_dmabuf=() if gathered.is_rccl else without_dmabuf(gathered, jobs),
        diagnostics=located(reports, gathered) if reports else None,
        connections=connection_remarks(gathered),
        ucx=ucx,
        newer=tuple(sorted({version for job in jobs for version in job.nccl_versions if is_newer(version)})),
    )


def _version(gathered: GatheredRanks, job: JobPart, rank: Rank) -> str:
    """The version that a rank's process prints; else the only one of its job, of which often one rank prints
    it; "" if neither decides."""
    own = {found.text for found in gathered.processes[rank.process].all(nccl_records.Version)}
    versions = own if len(own) == 1 else set(job.nccl_versions)
    return versions.pop() if len(versions) == 1 else ""


def carried_legs(ranks: Iterable[Rank]) -> tuple[dict[Carrier, int], int]:
    """Legs between hosts by what carries them, and the channels of the rank with the most. For a rank's
    channel and direction, the worst counts."""
    totals = dict.fromkeys(BETWEEN_HOSTS, 0)
    most = 0
    for rank in ranks:
        legs: dict[tuple[str, int], int] = {}
        for leg in rank.legs:
            if leg.carried not in BETWEEN_HOSTS:
                continue
            worst = BETWEEN_HOSTS.index(leg.carried)
            for channel in leg.channels:
                key = leg.direction, channel
                legs[key] = max(worst, legs.get(key, 0))
        most = max(most, len({channel for _, channel in legs}))
        for worst in legs.values():
            totals[BETWEEN_HOSTS[worst]] += 1
    return totals, most


def _counts(jobs: list[JobPart]) -> LegCounts:
    totals, most = carried_legs(rank for job in jobs for rank in job.ranks)
    present = sum(len(job.ranks) for job in jobs)
    expected = sum(max(job.expected or 0, len(job.ranks)) for job in jobs)
    return LegCounts(
        ranks=present, expected=expected, channels=most, direct=totals[Carrier.DIRECT],
        bounced=totals[Carrier.BOUNCED], socket=totals[Carrier.SOCKET], nvlink=totals[Carrier.NVLINK],
        unknown=expected - present,
        silent=sum(not rank.legs and rank.network_path is None for job in jobs for rank in job.ranks),
    )  # fmt: skip


def _state(
    jobs: list[JobPart], counts: LegCounts, failed: list[JobError], gathered: GatheredRanks,
    reports: Diagnostics | None,
) -> State:  # fmt: skip
    """active: every leg of every rank is direct. blocked: a leg is not, or cannot be, or GPU memory was
    refused. impossible: the same, and by its GPU none ever is. Else unknown, as of a job of which ranks are
    not in the logs."""
    unable = any(
        rank.network_path in INDIRECT for job in jobs if not is_local(gathered, job) for rank in job.ranks
    )
    refused = any(error.call in BLOCKING for error in failed)
    if counts.bounced or counts.socket or unable or refused:
        return "impossible" if not (counts.socket or refused) and _cannot_be(jobs) else "blocked"
    if counts.direct or counts.nvlink:
        # of lines that Ray takes for alike, any may be of another path
        return "unknown" if counts.unknown or counts.silent or gathered.tally.hidden else "active"
    return "blocked" if reports and any(one.blocks for one in reports.statements) else "unknown"


def _cannot_be(jobs: list[JobPart]) -> bool:
    """Whether the kind of its GPU is a proven reason of each path that is not direct. TCP has others."""
    paths = [(leg.carried, leg.reasons) for job in jobs for rank in job.ranks for leg in rank.legs]
    paths += [
        (rank.network_path, rank.network_reasons) for job in jobs for rank in job.ranks if rank.network_path
    ]
    slower = [(carried, reasons) for carried, reasons in paths if carried in INDIRECT]
    return all(
        carried is Carrier.BOUNCED and any(why.sure and why.codes[0] in OF_HARDWARE for why in reasons)
        for carried, reasons in slower
    )


def _with_ucx(of_nccl: State, counts: LegCounts, ucx: UcxLegs | None) -> State:
    """The state of a job whose logs also show what UCX does, the worse of both."""
    if ucx is None or ucx.direct is None or of_nccl in NOT_DIRECT:
        return of_nccl
    if ucx.direct and of_nccl == "unknown" and (counts.direct or counts.nvlink):
        return of_nccl  # of ranks that are not in the logs UCX shows nothing
    return "active" if ucx.direct else "blocked"


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
        leg.line
        for job in jobs
        for rank in job.ranks
        for leg in rank.legs
        if leg.carried is Carrier.SOCKET and leg.how
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

    printed = (found for _, found in gathered.tally.entries)
    return LoggedKinds(
        nccl=bool(gathered.tally.firsts or gathered.tally.damaged)
        or any(not isinstance(found, nccl_records.Variable) or found.resolved for found in printed),
        channels=any(rank.legs for job in jobs for rank in job.ranks),
        net=any_of(nccl_records.NetDevice, nccl_records.PairLine, nccl_records.FusedDevice),
        env=any_of(nccl_records.Variable),
        init=any_of(nccl_records.Communicator, nccl_records.Network),
        slurm=gathered.tally.failures.slurm,
        pods=tuple(sorted({one.host for one in gathered.processes.values()} & gathered.tally.failures.pods)),
    )
