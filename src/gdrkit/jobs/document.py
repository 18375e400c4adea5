"""The output of `gdr nccl --json`: schema gdrkit.nccl/1. The text is made from it, too."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Annotated

from msgspec import UNSET, Meta, Struct, structs

from gdrkit.catalogue import Code
from gdrkit.formats import json_text
from gdrkit.formats.plural import plural
from gdrkit.jobs.errors import BLOCKING
from gdrkit.jobs.gpu_names import OF_HARDWARE
from gdrkit.jobs.job import (
    NOT_DIRECT,
    ConnectionRemark,
    HostsWithoutDmabuf,
    JobAnalysis,
    JobDiagnostics,
    JobError,
    JobFinding,
    JobPart,
    Leg,
    LegCounts,
    LegDirection,
    LegReason,
    LoggedKinds,
    LogLineNumber,
    LogPosition,
    LoneSetting,
    MisleadingLine,
    RailCrossing,
    Rank,
    SharedNics,
    ShortNicList,
    State,
    UcxLegs,
)
from gdrkit.jobs.reasons import ITS_DEVICE
from gdrkit.programs.nccl.log_records import INDIRECT, Carrier
from gdrkit.report.summary import WIDTH, clause, clip

NAMED = 8
"""Devices and hosts that are named one by one."""


class JobVerdict(Struct, frozen=True, kw_only=True):
    state: State
    summary: Annotated[str, Meta(max_length=WIDTH)]


class WhySection(Struct, frozen=True, kw_only=True):
    """A reason why legs are not direct, for all ranks that share it."""

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
    lone_settings: tuple[LoneSetting, ...]  # printed by some hosts, beside one that prints no setting
    why_not_direct: tuple[WhySection, ...]
    errors: list[JobError]
    ended: bool  # the job, or a part of it, by the first of these errors
    misleading: list[MisleadingLine]
    damaged_lines: int
    hidden_lines: int  # of NCCL, in whose place Ray printed another one
    jobs: list[JobPart]
    refused: tuple[WhySection, ...]  # what NCCL refused, if no channel shows the result
    rail_crossing: RailCrossing | None  # null: none is seen
    short_nic_lists: tuple[ShortNicList, ...]
    shared_nics: tuple[SharedNics, ...]  # hosts with fewer NICs in NCCL's list than GPUs
    without_dmabuf: tuple[HostsWithoutDmabuf, ...]
    connections: tuple[ConnectionRemark, ...]  # small packets, addresses without IPv4
    diagnostics: JobDiagnostics | None  # reports of NCCL's own diagnostics; null: none
    ucx: UcxLegs | None  # tables of UCX_PROTO_INFO; null: none
    newer_versions: tuple[str, ...]  # of NCCL, read as far as their lines are known


Causes = tuple[str, ...]


def document(found: JobAnalysis, left: Callable[[Causes], Causes] = lambda causes: causes) -> NcclDocument:
    """The analysis of a job's logs as a document. `left`: the causes of a line that evidence beside the logs
    leaves."""

    def open_now(sections: Iterable[WhySection]) -> tuple[WhySection, ...]:
        return tuple(structs.replace(why, codes=left(why.codes)) for why in sections)

    return NcclDocument(
        verdict=JobVerdict(state=found.state, summary=summary(found)),
        counts=found.counts,
        logged=found.logged,
        findings=found.findings,
        lone_settings=found.lone_settings,
        why_not_direct=open_now(_ordered(why_sections(found.jobs).values())),
        errors=[structs.replace(error, codes=left(error.codes)) for error in found.errors],
        ended=found.ended,
        misleading=found.misleading,
        damaged_lines=found.damaged,
        hidden_lines=found.hidden,
        jobs=found.jobs,
        refused=open_now(_refused(found)),
        rail_crossing=found.crossing,
        short_nic_lists=tuple(structs.replace(one, codes=left(one.codes)) for one in found.short_nic_lists),
        shared_nics=found.shared_nics,
        without_dmabuf=tuple(structs.replace(one, codes=left(one.codes)) for one in found.without_dmabuf),
        connections=found.connections,
        diagnostics=found.diagnostics,
        ucx=found.ucx,
        newer_versions=found.newer,
    )


def encode(result: NcclDocument) -> bytes:
    """The document as JSON."""
    return json_text.encode(result, enc_hook=str)  # positions are written as text


def summary(found: JobAnalysis) -> str:
    """The verdict in one line of at most 80 characters."""
    counts = found.counts
    if not (counts.direct or counts.bounced or counts.socket):
        return _without_legs(found)
    of = f"{at_least(found.jobs)}{counts.expected}"
    if found.state == "unknown" and (counts.unknown or counts.silent):
        left = {
            f"{'has' if counts.silent == 1 else 'have'} no channel line": counts.silent,
            f"{'is' if counts.unknown == 1 else 'are'} not in the log": counts.unknown,
        }
        rest = ", ".join(f"{number} {words}" for words, number in left.items() if number)
        return clip(f"{counts.ranks - counts.silent} of {of} ranks direct; {rest}", WIDTH)
    if counts.direct and not (counts.bounced or counts.socket) and _is_refused(found):
        return f"{plural(counts.direct, 'leg')} meant to be direct, but memory was not registered"
    ranks = f"{plural(counts.ranks, 'rank')} x {plural(counts.channels, 'channel')}"
    if counts.unknown:
        legs = counts.direct + counts.bounced + counts.socket + counts.nvlink
        ranks = f"{counts.ranks} of {of} ranks in the log, {plural(legs, 'leg')}"
    shown = [f"{counts.socket} TCP"] if counts.socket else []
    shown += [f"{counts.nvlink} NVLink"] if counts.nvlink else []
    other = sum(rank.network_path in INDIRECT for job in found.jobs for rank in job.ranks)
    if other and found.state in NOT_DIRECT:
        shown.append(f"{plural(other, 'rank')} without a direct path")
    if counts.bounced or not shown:
        shown.insert(0, f"{counts.bounced} through host memory")
    shown.insert(0, f"{counts.direct} direct")
    then = "; then errors" if found.state == "active" and found.errors else ""
    return clip(f"{ranks}: {', '.join(shown)}{then}", WIDTH)


NO_CHANNEL = "no network channel; "


def _words(error: JobError) -> str:
    words = error.meaning or error.words.partition("NCCL WARN ")[2] or error.words
    return words[:1].lower() + words[1:] if words[1:2].islower() else words


def whole_summary(result: NcclDocument) -> str:
    """The verdict in one sentence of any length."""
    summary = result.verdict.summary
    if not (summary.startswith(NO_CHANNEL) and result.errors):
        return summary
    return NO_CHANNEL + _words(result.errors[0])


def _without_legs(found: JobAnalysis) -> str:
    """The verdict in one line where no channel goes over a NIC or TCP."""
    if found.counts.nvlink:
        legs = plural(found.counts.nvlink, "leg")
        return clip(
            f"{plural(found.counts.ranks, 'rank')}: {legs} over NVLink (MNNVL), none over a NIC", WIDTH
        )
    if decided := _decided(found):
        return decided
    if found.ucx is not None:
        return clip(found.ucx.claim, WIDTH)
    if found.errors:
        first = found.errors[0]
        return NO_CHANNEL + clause(_words(first), WIDTH - len(NO_CHANNEL))
    if mixed := next((one for one in found.findings if one.code == "versions-differ-between-ranks"), None):
        return NO_CHANNEL + clause(mixed.seen, WIDTH - len(NO_CHANNEL))
    if found.diagnostics is not None:
        return clip(found.diagnostics.summary, WIDTH)
    if local := _of_one_host(found.jobs):
        return clip(local, WIDTH)
    if not found.logged.nccl:
        return "no line of NCCL: give the output of a job that ran with NCCL_DEBUG=INFO"
    if found.logged.channels:
        return "no channel leaves its node: the logs do not show the network"
    if found.damaged:
        lines = "1 line is" if found.damaged == 1 else f"{found.damaged} lines are"
        return f"no channel line can be read: {lines} cut, or in a form that gdr does not know"
    if late := next((job.missing for job in found.jobs if job.missing and job.missing.processes), None):
        return clip(f"no channel line: ranks wait for {', '.join(late.processes)}", WIDTH)
    if len({rank.process.rpartition(":")[0] for job in found.jobs for rank in job.ranks}) > 1:
        return "no channel line: the log ends, or is cut, before NCCL connects its ranks"
    return "no channel line: run with NCCL_DEBUG=INFO, on two nodes or more"


def _is_refused(found: JobAnalysis) -> bool:
    """Whether memory could not be registered: a channel line is printed before that is tried."""
    return any(error.call in BLOCKING for error in found.errors)


def _of_one_host(jobs: list[JobPart]) -> str:
    """That no network is needed, if each job is on one host; else ""."""
    if not jobs or not all(job.on_one_host for job in jobs):
        return ""
    ranks = plural(sum(len(job.ranks) for job in jobs), "rank")
    used = {leg.carried for job in jobs for rank in job.ranks for leg in rank.legs}
    by = " and ".join(INSIDE[carried] for carried in INSIDE if carried in used)
    where = "on one host" if len(jobs) == 1 else "of jobs on one host each"
    return f"{ranks} {where}: no network is needed" + (f"; NCCL uses {by}" if by else "")


INSIDE = {Carrier.PEER: "P2P", Carrier.SHARED: "shared memory"}


def at_least(jobs: Iterable[JobPart]) -> str:
    """What to say before a number of ranks that these jobs have."""
    return "at least " if any(job.at_least for job in jobs) else ""


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
    """0: every leg is direct, or none can be; 1: the same, with warnings or errors; 2: some leg is not; 3:
    the logs do not show it."""
    if result.verdict.state == "blocked":
        return 2
    if result.verdict.state == "unknown":
        return 3
    return (
        1
        if result.errors
        or result.short_nic_lists
        or any(finding.status != "note" for finding in result.findings if finding.code not in OF_HARDWARE)
        else 0
    )


WhyKey = tuple[str, tuple[str, ...]]
"""What reasons share that are one: the text without the name of the leg's device, and the codes."""


def why_sections(jobs: Iterable[JobPart]) -> dict[WhyKey, WhySection]:
    """Reasons, by what they share."""
    groups: dict[WhyKey, list[tuple[Rank, Leg | None, LegReason]]] = defaultdict(list)
    for rank in (rank for job in jobs for rank in job.ranks):
        for leg in rank.legs:
            for reason in leg.reasons:
                groups[why_key(leg, reason)].append((rank, leg, reason))
        for reason in rank.network_reasons:
            if reason.line is not UNSET:
                groups[reason.text, reason.codes].append((rank, None, reason))
    return {
        (text, codes): WhySection(
            text=_of_devices(text, {leg.device for _, leg, _ in group if leg is not None}), codes=codes,
            ranks=len({(r.process, r.cuda_device) for r, _, _ in group}),
            directions=tuple(sorted({leg.direction for _, leg, _ in group if leg is not None})),
            line=min(_line(leg, reason) for _, leg, reason in group),
        )
        for (text, codes), group in groups.items()
    }  # fmt: skip


def why_key(leg: Leg, reason: LegReason) -> WhyKey:
    """The key of a leg's reason: equal for legs that are not direct for one reason."""
    if not leg.device:
        return reason.text, reason.codes
    name = rf"(?<![\w.-]){re.escape(leg.device)}(?![\w-])"
    return re.sub(name, ITS_DEVICE, reason.text), reason.codes


def _of_devices(text: str, devices: set[str]) -> str:
    """The text of a key, with the names of the devices that it is about."""
    some = sorted(devices - {""})
    more = f" and {len(some) - NAMED} more" if len(some) > NAMED else ""
    return text.replace(ITS_DEVICE, ", ".join(some[:NAMED]) + more)


def _line(leg: Leg | None, reason: LegReason) -> LogPosition:
    """The line that shows a reason, or the leg that it is about."""
    if reason.line is not UNSET:
        return reason.line
    assert leg is not None  # the reasons of a rank have lines
    return leg.line


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
