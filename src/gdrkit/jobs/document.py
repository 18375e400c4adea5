"""What `gdr nccl --json` writes: schema gdrkit.nccl/1. Versioned, additive. PURE.

The text is made from this document, so that neither says more than the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from gdrkit.jobs.job import Analysis, Found, Place, Rank, Reason, Route
from gdrkit.report.summary import WIDTH, clip
from gdrkit.rules import RULES


class JobVerdict(Struct, kw_only=True):
    state: str  # active, blocked, unknown
    summary: str  # at most 80 characters


class CountsSection(Struct, kw_only=True):
    """A leg is one channel of one rank in one direction over a network, by the worst that carries it."""

    ranks: int  # that print channels or belong to a communicator
    expected: int  # ranks of the communicators, printed or not
    unknown: int  # expected, and no line is of them
    channels: int
    direct: int
    bounced: int
    socket: int


class LoggedSection(Struct, kw_only=True):
    """Which kinds of lines the logs have. One that they do not have says nothing."""

    channels: bool
    net: bool
    env: bool
    init: bool


class ReasonSection(Struct, kw_only=True, omit_defaults=True):
    text: str
    codes: list[str] = []  # one: the cause. Several: open. None: not known, or nothing to mend
    line: str = ""  # file:number


class RouteSection(Struct, kw_only=True, omit_defaults=True):
    direction: str  # send, receive; both inside a node
    carried: str  # direct, bounced, socket, p2p, shm
    channels: list[int]
    line: str  # file:number of the first channel line that proves it
    network: str = ""
    index: int | None = None
    device: str = ""
    how: str = ""
    forced_pcie: bool = False
    pxn_proxy: int | None = None
    collnet: bool = False
    shared_buffers: bool = False
    reasons: list[ReasonSection] = []


class RankSection(Struct, kw_only=True):
    rank: int | None
    process: str  # host:pid
    cuda_device: int | None
    gpu: str  # bus id or NVML index, as the log has it
    routes: list[RouteSection]


class JobSection(Struct, kw_only=True):
    number: int
    nccl_versions: list[str]
    networks: list[str]
    communicators: int
    expected: int | None
    ranks: list[RankSection]


class JobFinding(Struct, kw_only=True):
    code: str
    layer: str
    status: str  # failed, warning, note
    subject: str
    seen: str
    expected: str
    cost: str
    ranks: int
    lines: list[str]
    references: list[str]


class WhySection(Struct, kw_only=True):
    """A reason of routes that are not direct, over all ranks that share it."""

    text: str
    codes: list[str]
    ranks: int
    directions: list[str]
    line: str


class ErrorSection(Struct, kw_only=True):
    call: str
    number: int | None
    vendor_error: int | None
    meaning: str
    codes: list[str]
    ranks: int
    count: int
    line: str
    words: str


class MisleadingSection(Struct, kw_only=True):
    words: str
    truth: str
    count: int  # of processes that print it, each of its devices apart
    line: str


class NcclDocument(Struct, kw_only=True):
    schema: str = "gdrkit.nccl/1"
    verdict: JobVerdict
    counts: CountsSection
    logged: LoggedSection
    findings: list[JobFinding]
    why_not_direct: list[WhySection]
    errors: list[ErrorSection]
    misleading: list[MisleadingSection]
    damaged_lines: int
    jobs: list[JobSection]
    refused: list[WhySection]  # what NCCL refused, where no channel shows what came of it


def document(found: Analysis) -> NcclDocument:
    """The analysis of a job's logs as a document."""
    counts = found.counts
    return NcclDocument(
        verdict=JobVerdict(state=found.state, summary=summary(found)),
        counts=CountsSection(
            ranks=counts.ranks, expected=counts.expected, unknown=counts.unknown, channels=counts.channels,
            direct=counts.direct, bounced=counts.bounced, socket=counts.socket,
        ),
        logged=LoggedSection(**found.logged),
        findings=[_finding(one) for one in found.findings],
        why_not_direct=_why(found),
        errors=[
            ErrorSection(
                call=one.call, number=one.number, vendor_error=one.vendor_error, meaning=one.meaning,
                codes=list(one.codes), ranks=one.ranks, count=one.count, line=str(one.place),
                words=one.words,
            )
            for one in found.errors
        ],
        misleading=[
            MisleadingSection(words=one.words, truth=one.truth, count=one.count, line=str(one.place))
            for one in found.misleading
        ],
        damaged_lines=found.damaged,
        jobs=[
            JobSection(
                number=job.number, nccl_versions=list(job.versions), networks=list(job.networks),
                communicators=job.communicators, expected=job.expected,
                ranks=[_rank(rank) for rank in job.ranks],
            )
            for job in found.jobs
        ],
        refused=_refused(found),
    )  # fmt: skip


def summary(found: Analysis) -> str:
    """The verdict in one line of at most 80 characters."""
    counts = found.counts
    if not (counts.direct or counts.bounced or counts.socket):
        if found.errors:
            return clip(f"no channel over a network; {found.errors[0].words}", WIDTH)
        if found.logged["channels"]:
            return "no channel leaves its node: nothing here tells of the network"
        return "no channel line: run with NCCL_DEBUG=INFO, on two nodes or more"
    ranks = _counted(counts.ranks, "rank") + (f" of {counts.expected}" if counts.unknown else "")
    socket = f", {counts.socket} TCP" if counts.socket else ""
    unknown = _counted(counts.unknown, "rank")
    legs = f"{counts.direct} direct, {counts.bounced} bounced{socket}, {unknown} unknown"
    return clip(f"{ranks} x {_counted(counts.channels, 'channel')}: {legs}", WIDTH)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def exit_code(told: NcclDocument) -> int:
    """0 every leg is direct, 1 likewise with warnings, 2 some leg is not, 3 the logs do not tell."""
    if told.verdict.state == "blocked":
        return 2
    if told.verdict.state == "unknown":
        return 3
    return 1 if any(finding.status != "note" for finding in told.findings) else 0


_RULES = {rule.code: rule for rule in RULES}


def _finding(one: Found) -> JobFinding:
    rule = _RULES[one.code]
    return JobFinding(
        code=one.code, layer=rule.layer.word, status=one.status, subject=one.subject, seen=one.seen,
        expected=one.expected, cost=rule.cost, ranks=one.ranks, lines=[str(place) for place in one.places],
        references=list(rule.references),
    )  # fmt: skip


def _why(found: Analysis) -> list[WhySection]:
    """Reasons, those that concern most ranks first."""
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[Rank, Route, Reason]]] = defaultdict(list)
    for rank in (rank for job in found.jobs for rank in job.ranks):
        for route in rank.routes:
            for reason in route.reasons:
                groups[reason.text, reason.codes].append((rank, route, reason))
    made = [
        WhySection(
            text=text, codes=list(codes), ranks=len({(r.process, r.device) for r, _, _ in group}),
            directions=sorted({route.direction for _, route, _ in group}),
            line=_least([reason.place or route.place for _, route, reason in group]),
        )
        for (text, codes), group in groups.items()
    ]  # fmt: skip
    return sorted(made, key=lambda why: (-why.ranks, why.text))


def _refused(found: Analysis) -> list[WhySection]:
    """The same of what was refused before any channel. `ranks` counts processes."""
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[str, Reason]]] = defaultdict(list)
    for process, reason in found.refused:
        groups[reason.text, reason.codes].append((process, reason))
    made = [
        WhySection(
            text=text, codes=list(codes), ranks=len({process for process, _ in group}), directions=[],
            line=_least([reason.place for _, reason in group if reason.place is not None]),
        )
        for (text, codes), group in groups.items()
    ]  # fmt: skip
    return sorted(made, key=lambda why: (-why.ranks, why.text))


def _least(places: Sequence[Place]) -> str:
    return str(min(places))


def _rank(rank: Rank) -> RankSection:
    return RankSection(
        rank=rank.rank, process=rank.process, cuda_device=rank.device, gpu=rank.gpu,
        routes=[_route(route) for route in rank.routes],
    )  # fmt: skip


def _route(route: Route) -> RouteSection:
    return RouteSection(
        direction=route.direction, carried=route.carried, channels=list(route.channels),
        line=str(route.place),
        network=route.network, index=route.index if route.index >= 0 else None, device=route.device,
        how=route.how, forced_pcie=route.forced_pcie, pxn_proxy=route.proxy, collnet=route.collective,
        shared_buffers=route.shared,
        reasons=[
            ReasonSection(text=r.text, codes=list(r.codes), line=str(r.place) if r.place else "")
            for r in route.reasons
        ],
    )  # fmt: skip
