"""The output of `gdr nccl --json`: schema gdrkit.nccl/1. The text is made from it, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated

from msgspec import UNSET, Meta, Struct

from gdrkit.catalogue import Code
from gdrkit.formats import json_text
from gdrkit.formats.plural import plural
from gdrkit.jobs.job import (
    JobAnalysis,
    JobError,
    JobFinding,
    JobPart,
    LegCounts,
    LegDirection,
    LegReason,
    LegRoute,
    LoggedKinds,
    LogLineNumber,
    LogPosition,
    MisleadingLine,
    RailCrossing,
    Rank,
    State,
)
from gdrkit.programs.nccl.log_records import INDIRECT, Carrier
from gdrkit.report.summary import WIDTH, clip


class JobVerdict(Struct, frozen=True, kw_only=True):
    state: State
    summary: Annotated[str, Meta(max_length=WIDTH)]


class WhySection(Struct, frozen=True, kw_only=True):
    """A reason why routes are not direct, for all ranks that share it."""

    text: str
    codes: tuple[Code, ...]
    ranks: int
    directions: tuple[LegDirection, ...]
    line: LogLineNumber


class NcclDocument(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.nccl/1"):
    """The output of `gdr nccl`."""

    verdict: JobVerdict
    counts: LegCounts
    logged: LoggedKinds
    findings: tuple[JobFinding, ...]
    why_not_direct: tuple[WhySection, ...]
    errors: list[JobError]
    misleading: list[MisleadingLine]
    damaged_lines: int
    jobs: list[JobPart]
    refused: tuple[WhySection, ...]  # what NCCL refused, if no channel shows the result
    rail_crossing: RailCrossing | None  # null: none is seen
    newer_versions: tuple[str, ...]  # of NCCL, read as far as their lines are known


def document(found: JobAnalysis) -> NcclDocument:
    """The analysis of a job's logs as a document."""
    return NcclDocument(
        verdict=JobVerdict(state=found.state, summary=summary(found)),
        counts=found.counts,
        logged=found.logged,
        findings=found.findings,
        why_not_direct=_why(found),
        errors=found.errors,
        misleading=found.misleading,
        damaged_lines=found.damaged,
        jobs=found.jobs,
        refused=_refused(found),
        rail_crossing=found.crossing,
        newer_versions=found.newer,
    )


def encode(result: NcclDocument) -> bytes:
    """The document as JSON."""
    return json_text.encode(result, enc_hook=str)  # positions are written as text


def summary(found: JobAnalysis) -> str:
    """The verdict in one line of at most 80 characters."""
    counts = found.counts
    if not (counts.direct or counts.bounced or counts.socket):
        if counts.nvlink:
            legs = plural(counts.nvlink, "leg")
            return clip(
                f"{plural(counts.ranks, 'rank')}: {legs} over NVLink (MNNVL), none over a NIC", WIDTH
            )
        if decided := _decided(found):
            return decided
        if found.errors:
            return clip(f"no channel over a network; {found.errors[0].words}", WIDTH)
        if found.logged.channels:
            return "no channel leaves its node: the logs do not show the network"
        return "no channel line: run with NCCL_DEBUG=INFO, on two nodes or more"
    ranks = plural(counts.ranks, "rank") + (f" of {counts.expected}" if counts.unknown else "")
    socket = f", {counts.socket} TCP" if counts.socket else ""
    unknown = plural(counts.unknown, "rank")
    nvlink = f", {counts.nvlink} NVLink" if counts.nvlink else ""
    other = sum(rank.network_path in INDIRECT for job in found.jobs for rank in job.ranks)
    nvlink += (
        f", {plural(other, 'rank')} without a direct path" if other and found.state == "blocked" else ""
    )
    legs = f"{counts.direct} direct, {counts.bounced} bounced{socket}{nvlink}, {unknown} unknown"
    return clip(f"{ranks} x {plural(counts.channels, 'channel')}: {legs}", WIDTH)


def _decided(found: JobAnalysis) -> str:
    """The verdict in one line, if lines without a channel decide it; else ""."""
    paths = [rank.network_path for job in found.jobs for rank in job.ranks if rank.network_path]
    if not paths or (found.state == "unknown" and set(paths) != {Carrier.NVLINK}):
        return ""
    verb = "cannot use GPUDirect RDMA"
    if Carrier.BOUNCED not in paths:
        what = "TCP" if Carrier.SOCKET in paths else "NVLink between hosts (MNNVL)"
        verb = f"{'uses' if len(paths) == 1 else 'use'} {what}"
    return clip(f"no channel line, but {plural(len(paths), 'rank')} {verb}", WIDTH)


def exit_code(result: NcclDocument) -> int:
    """0: every leg is direct; 1: the same, with warnings or errors; 2: some leg is not; 3: the logs do not
    show it."""
    if result.verdict.state == "blocked":
        return 2
    if result.verdict.state == "unknown":
        return 3
    return 1 if result.errors or any(finding.status != "note" for finding in result.findings) else 0


def _why(found: JobAnalysis) -> tuple[WhySection, ...]:
    """Reasons, those of most ranks first."""
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[Rank, LegRoute | None, LegReason]]] = defaultdict(
        list
    )
    for rank in (rank for job in found.jobs for rank in job.ranks):
        for route in rank.routes:
            for reason in route.reasons:
                groups[reason.text, reason.codes].append((rank, route, reason))
        for reason in rank.network_reasons:
            if reason.line is not UNSET:
                groups[reason.text, reason.codes].append((rank, None, reason))
    made = [
        WhySection(
            text=text, codes=codes, ranks=len({(r.process, r.cuda_device) for r, _, _ in group}),
            directions=tuple(sorted({route.direction for _, route, _ in group if route is not None})),
            line=min(_line(route, reason) for _, route, reason in group),
        )
        for (text, codes), group in groups.items()
    ]  # fmt: skip
    return _ordered(made)


def _line(route: LegRoute | None, reason: LegReason) -> LogPosition:
    """The line that shows a reason, or the route that it is about."""
    if reason.line is not UNSET:
        return reason.line
    assert route is not None  # the reasons of a rank have lines
    return route.line


def _refused(found: JobAnalysis) -> tuple[WhySection, ...]:
    """Reasons of refusals in logs without channels. `ranks` counts processes."""
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[str, LegReason]]] = defaultdict(list)
    for process, reason in found.refused:
        groups[reason.text, reason.codes].append((process, reason))
    made = [
        WhySection(
            text=text, codes=codes, ranks=len({process for process, _ in group}), directions=(),
            line=min(reason.line for _, reason in group if reason.line is not UNSET),
        )
        for (text, codes), group in groups.items()
    ]  # fmt: skip
    return _ordered(made)


def _ordered(reasons: Iterable[WhySection]) -> tuple[WhySection, ...]:
    return tuple(sorted(reasons, key=lambda why: (-why.ranks, why.text)))
