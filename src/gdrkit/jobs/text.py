"""The verdict on a job for a terminal: summary, findings, reasons, then a table of ranks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from gdrkit.formats.gpu_slot import gpu_slot
from gdrkit.formats.number_ranges import number_ranges
from gdrkit.jobs.diagnostics_text import diagnostics_rows
from gdrkit.jobs.document import NcclDocument, at_least, whole_summary
from gdrkit.jobs.hosts import (
    SLOWER,
    JobHosts,
    by_host,
    contrast,
    headline,
    host_line,
    next_steps,
    nic_list_step,
)
from gdrkit.jobs.job import NOT_DIRECT, JobFinding, JobPart, Leg, LegDirection, Rank
from gdrkit.jobs.missing_ranks import missing_words
from gdrkit.jobs.nic_lists import shared_nics_rows, short_list_words
from gdrkit.jobs.ucx_tables import ucx_rows, ucx_steps
from gdrkit.jobs.without_dmabuf import dmabuf_rows
from gdrkit.report.rack_traffic import rack_line
from gdrkit.report.terminal import Row, excerpt, render

STYLES = {
    "head": "bold", "active": "bold green", "blocked": "bold red", "impossible": "bold yellow",
    "unknown": "bold magenta", "staged": "red", "socket": "red", "direct": "green", "nvlink": "green",
    "failed": "red", "warning": "yellow", "note": "dim", "quote": "dim",
}  # fmt: skip
EACH = 16
"""Up to this number ranks are listed one by one; with more, equal ones share a row."""
WORDS = 150
CARRIED = {
    "direct": "GDRDMA", "bounced": "through host memory", "socket": "TCP", "nvlink": "NVLink (MNNVL)",
    "p2p": "P2P", "shm": "host SHM",
}  # fmt: skip
WHY_FINE = (
    "inside a host NCCL needs no NIC, so this log cannot show whether GPU memory reaches the network: run "
    "the job on two hosts for that"
)
ASK = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH"


def text(
    document: NcclDocument, *, rank: int | None = None, every: bool = False, brief: bool = False,
    colour: bool = False, width: int | None = None,
) -> str:  # fmt: skip
    """The document as lines. `rank`: only that rank, with every leg and its line; `every`: all ranks so;
    `brief`: only the head of the page."""
    rows = _detail(document, rank) if rank is not None or every else _page(document, brief=brief)
    return render(rows, STYLES, colour=colour, width=width)


def _page(document: NcclDocument, *, brief: bool) -> Iterator[Row]:
    groups = by_host(document)
    slower = document.verdict.state in NOT_DIRECT and any(group.path in SLOWER for group in groups)
    steps = [*(next_steps(document, groups) if slower else ()), *ucx_steps(document.ucx)]
    steps += [f"{one.text} ({one.line})" for one in document.connections]
    if document.ended and not brief:  # before the path, which may be as it is meant to be
        yield from _errors(document, "Errors: the first one ended the job")
    yield from _head(document, groups)
    yield from _hosts(document, groups)
    if brief:
        yield from _next(() if document.ended else steps)
        yield 0, "note", "`gdr nccl LOG` shows the rest"
        return
    if document.findings:
        yield 0, "head", "Findings"
        for finding in document.findings:
            yield from _finding(finding)
            step = finding.todo or _page_of(finding.code)
            if not (headline(groups) or any(step == one or f" {finding.code}`" in one for one in steps)):
                yield 6, "", f"next: {step}"
        yield 0, "", ""
    yield from _why(document)
    yield from _refused(document)
    yield from _next(steps)
    yield from _rack(document)
    if document.errors and not document.ended:
        yield from _errors(document, "Errors")
    if document.diagnostics is not None:
        yield from diagnostics_rows(document.diagnostics)
    if document.ucx is not None:
        yield from ucx_rows(document.ucx)
    yield from _nics(document)
    yield from dmabuf_rows(document)
    yield from _rails(document)
    for job in document.jobs:
        yield from _table(job, len(document.jobs) > 1)
    yield from _misleading(document)
    yield from _notes(document)


def _next(steps: Iterable[str]) -> Iterator[Row]:
    rows = [(2, "", step) for step in steps]
    yield from ((0, "head", "Next"), *rows, (0, "", "")) if rows else ()


def _notes(document: NcclDocument) -> Iterator[Row]:
    """How much of the logs was not read, or could not show anything."""
    if document.damaged_lines:
        yield (
            0,
            "note",
            f"{document.damaged_lines} lines are truncated, mixed into each other or of an unknown form: "
            "not counted",
        )
    for version in document.newer_versions:
        yield (
            0,
            "note",
            f"NCCL {version} is newer than this gdrkit: lines of unknown forms are skipped",
        )
    legs, state = document.counts, document.verdict.state
    on_hosts = any(not job.on_one_host for job in document.jobs)
    without_result = state == "unknown" and on_hosts and not legs.direct and not legs.nvlink
    if not document.logged.net and (legs.bounced or without_result):
        yield 0, "", ""
        yield (
            0,
            "note",
            "This log has no line about which GPU may go directly to which NIC: NCCL prints them only with "
            f"{ASK}.",
        )


def _head(document: NcclDocument, groups: tuple[JobHosts, ...]) -> Iterator[Row]:
    state, summary, hosts_line = document.verdict.state, whole_summary(document), headline(groups)
    yield 0, state, f"{state}  {hosts_line or summary}"
    if hosts_line:
        yield 2, "", summary
        if words := contrast(document, groups):
            yield 2, "", words
    if document.hidden_lines:
        yield 2, "", f"Ray dropped lines, of any path ({document.hidden_lines:,}): run with RAY_DEDUP_LOGS=0"
    elif state == "unknown" and document.counts.direct and document.counts.unknown:
        yield 2, "", "the log ends early, or is of some ranks only: `gdr nccl` takes all logs of a job"
    for job in document.jobs:
        version = (
            f"NCCL {' and '.join(job.nccl_versions)}" if job.nccl_versions else "NCCL of unknown version"
        )
        name = f"job {job.number}: " if len(document.jobs) > 1 else ""
        of = ""
        if job.expected and job.expected > len(job.ranks):
            of = f"{len(job.ranks)} of {at_least((job,))}"
        ranks = of + _count(job.expected if of and job.expected else len(job.ranks), "rank")
        network = f", network {', '.join(job.networks)}" if job.networks else ""
        hosts = len({rank.process.rpartition(":")[0] for rank in job.ranks})
        where = _count(hosts, "host")
        if job.on_one_host and hosts > 1:
            where = f"1 host of {hosts} names, as pods have"
        if job.communicators > 1 and job.expected and job.expected < len(job.ranks):
            ranks += f" in {job.communicators} communicators"
        yield 2, "", f"{name}{version}{network}, {ranks} on {where}"
        if job.missing is not None:
            yield 2, "", f"{name}{missing_words(job.missing)}"
    yield from shared_nics_rows(document.shared_nics)
    if document.jobs and all(job.on_one_host for job in document.jobs) and state == "unknown":
        yield 2, "", WHY_FINE
    yield 0, "", ""


def _hosts(document: NcclDocument, groups: tuple[JobHosts, ...]) -> Iterator[Row]:
    """The hosts that differ, where ranks are too many to be read one by one."""
    if sum(group.path in SLOWER for group in groups) > 1 and document.counts.ranks > EACH:
        yield 0, "head", "Hosts"
        for group in groups[:EACH]:
            yield 2, group.path, host_line(group)
        if len(groups) > EACH:
            yield 2, "note", f"and {len(groups) - EACH} more kinds: gdr nccl --all"
        yield 0, "", ""


def _finding(finding: JobFinding) -> Iterator[Row]:
    ranks = f" ({_count(finding.ranks, 'rank')})" if finding.ranks > 1 else ""
    yield 2, finding.status, f"{finding.status}  {finding.code}{ranks}: {finding.seen}"
    yield 6, "quote", f"expected: {finding.expected}"
    if finding.lines:
        yield 6, "quote", ", ".join(map(str, finding.lines))


def _why(document: NcclDocument) -> Iterator[Row]:
    found = {(finding.code,) for finding in document.findings}  # these are shown as findings
    undecided = [why for why in document.why_not_direct if why.codes not in found]
    if not undecided:
        return
    yield 0, "head", "Why not direct"
    for why in undecided[:EACH]:
        named = "cause" if len(why.codes) == 1 else "possible causes"
        causes = f"; {named}: {', '.join(why.codes)}" if why.codes else ""
        directions = " and ".join(filter(None, why.directions))
        ranks = _count(why.ranks, "rank") + (f", {directions}" if directions else "")
        yield 2, "", f"{ranks}: {why.text}{causes}"
        yield 6, "quote", str(why.line)
    if len(undecided) > EACH:
        yield 2, "note", f"and {len(undecided) - EACH} more: --json has all"
    yield 0, "", ""


def _refused(document: NcclDocument) -> Iterator[Row]:
    if not document.refused:
        return
    yield 0, "head", "Refused (no channel line shows the result)"
    for why in document.refused[:EACH]:
        causes = f"; possible causes: {', '.join(why.codes)}" if len(why.codes) > 1 else "".join(why.codes)
        yield 2, "warning", f"{why.text}{causes if len(why.codes) != 1 else f' ({causes})'}"
        yield 6, "quote", str(why.line)
    if len(document.refused) > EACH:
        yield 2, "note", f"and {len(document.refused) - EACH} more: --json has all"
    yield 0, "", ""


def _rack(document: NcclDocument) -> Iterator[Row]:
    """Why NVLink between hosts is not used, once for all ranks."""
    lines = dict.fromkeys(rack_line(error.codes) for error in document.errors)
    for line in filter(None, lines):
        yield 0, "warning", line
        yield 0, "", ""


def _errors(document: NcclDocument, head: str) -> Iterator[Row]:
    yield 0, "head", head
    found = {finding.code for finding in document.findings}  # they have their next step
    for error in document.errors:
        number = "" if error.number is None else f" {error.number}"
        vendor = "" if error.vendor_error is None else f", vendor error {error.vendor_error}"
        where = f"{error.count} x on {_count(error.ranks, 'process', 'es')}"
        yield 2, "failed", f"{error.call}{number}{vendor}: {error.meaning or 'unknown error'} ({where})"
        if len(error.codes) > 1 or not error.decides:
            yield 6, "", f"possible cause{'s' * (len(error.codes) > 1)}: {', '.join(error.codes)}"
        yield 6, "quote", f"{error.line}: {excerpt(error.words, WORDS)}"
        for code in error.codes[:1]:
            if code not in found:
                yield 6, "", f"next: {_page_of(code)}"
        if error.todo and not error.codes:
            yield 6, "", f"next: {error.todo}"
    yield 0, "", ""


def _page_of(code: str) -> str:
    return f"`gdr codes {code}` says how to tell, and what to do"


def _nics(document: NcclDocument) -> Iterator[Row]:
    if not document.short_nic_lists:
        return
    yield 0, "head", "NICs"
    for one in document.short_nic_lists:
        yield 2, "warning", short_list_words(one)
        yield 6, "", f"possible causes: {', '.join(one.codes)}"
        yield 6, "quote", str(one.line)
        yield 6, "", f"next: {nic_list_step(one)}"
    yield 0, "", ""


def _rails(document: NcclDocument) -> Iterator[Row]:
    found = document.rail_crossing
    if found is None:
        return
    yield 0, "head", "Rails"
    ends = (
        f"rank {found.sender} sends channel {found.channel} by {found.sending_device}, and rank "
        f"{found.receiver} receives it by {found.receiving_device}"
    )
    of = _count(found.checked, "connection")
    yield 2, "", f"{found.count:,} of {of} with both ends in the logs cross rails: {ends}"
    yield 6, "quote", str(found.line)
    hosts = {
        rank.host
        for job in document.jobs
        for rank in job.ranks
        if rank.rank in (found.sender, found.receiver)
    }
    if len(hosts) == 1 and "" not in hosts:
        yield (
            6,
            "",
            "both ranks are on one host, where NCCL takes a NIC if P2P and shared memory are off or slower: "
            "NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, NCCL_SHM_DISABLE",
        )
    unlisted = {name for one in document.short_nic_lists for name in one.missing}
    if lacking := sorted(unlisted & {found.sending_device, found.receiving_device}):
        keeps = f"NCCL_CROSS_NIC=0 cannot keep it on one: a host does not list {lacking[0]}"
    else:
        keeps = "NCCL_CROSS_NIC=0 keeps it on one"
    yield 6, "", f"such traffic needs a route between rails; {keeps}"
    yield 0, "", ""


def _misleading(document: NcclDocument) -> Iterator[Row]:
    if not document.misleading:
        return
    yield 0, "", ""
    yield 0, "head", "Misleading lines"
    for line in document.misleading:
        times = f" ({line.count:,} such lines)" if line.count > 1 else ""
        yield 2, "quote", f"{line.line}: {excerpt(line.words, WORDS)}{times}"
        yield 6, "", line.truth


# -- ranks -----------------------------------------------------------------------------------------------


def _table(job: JobPart, several: bool) -> Iterator[Row]:
    yield 0, "head", f"Ranks of job {job.number}" if several else "Ranks"
    if len(job.ranks) <= EACH:
        for rank in job.ranks:
            what = "; ".join(_words(rank.legs, device=True)) or _without_channel(rank)
            yield 6, "none", what, f"  {_name(rank, apart=job.shares_numbers)}  "
        return
    groups: dict[tuple[str, ...], list[Rank]] = defaultdict(list)
    for rank in job.ranks:
        groups[tuple(_words(rank.legs, device=False)) or (_without_channel(rank),)].append(rank)
    for words, ranks in sorted(groups.items(), key=lambda group: -len(group[1])):
        numbers = number_ranges(rank.rank for rank in ranks if rank.rank is not None) or "unnumbered"
        if job.shares_numbers:
            numbers = f"of {_count(len({rank.communicator for rank in ranks}), 'communicator')}"
        devices = {leg.device for rank in ranks for leg in rank.legs if leg.device}
        over = f" over {_count(len(devices), 'device')}" if devices else ""
        yield 6, "none", "; ".join(words), f"  {_count(len(ranks), 'rank')} ({numbers}){over}: "


def _name(rank: Rank, *, apart: bool = False) -> str:
    number = f"rank {rank.rank}" if rank.rank is not None else "rank ?"
    number += f" of {rank.communicator}" if apart and rank.communicator else ""
    process = f"  {rank.process}" if ":" in rank.process else ""
    return f"{number}{process}" + (f" {_gpu(rank.gpu)}" if rank.gpu else "")


def _gpu(name: str) -> str:
    """A GPU as the log has it: a bus id, whose last digit is the function (NCCL src/misc/utils.cc,
    int64ToBusId), or an NVML index."""
    if not re.fullmatch(r"[0-9a-f]{4,12}", name):
        return f"GPU {name}"
    digits = name.zfill(9)
    return gpu_slot(None, f"{digits[:-5]}:{digits[-5:-3]}:{digits[-3:-1]}.{digits[-1]}")


def _without_channel(rank: Rank) -> str:
    path = f": its network uses {CARRIED[rank.network_path]}" if rank.network_path else ""
    return f"no channel line{path}".replace("uses through", "goes through")


def _words(legs: Iterable[Leg], *, device: bool) -> list[str]:
    """The kinds of a rank's legs: `send GDRDMA mlx5_0`, `inside P2P`."""
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for leg in legs:
        carried = CARRIED[leg.carried] + ("(PCI)" if leg.forced_pcie else "")
        carried += " by PXN" if leg.pxn_proxy is not None else ""
        inside = "domain" if leg.carried == "nvlink" else "inside"
        direction = inside if leg.direction is LegDirection.BOTH else leg.direction or "CollNet"
        name = leg.device or (f"{leg.network}/{leg.index}" if leg.network else "")
        found[direction, carried][name if device else leg.network] = None
    order = ("send", "receive", "CollNet", "domain", "inside")
    return [
        " ".join(filter(None, (direction, carried, " ".join(names)))).rstrip()
        for (direction, carried), names in sorted(found.items(), key=lambda item: order.index(item[0][0]))
    ]


def _detail(document: NcclDocument, number: int | None) -> Iterator[Row]:
    shown = False
    for job in document.jobs:
        name = f"job {job.number}  " if len(document.jobs) > 1 else ""
        for rank in job.ranks:
            if number is not None and rank.rank != number:
                continue
            shown = True
            yield 0, "head", name + _name(rank, apart=job.shares_numbers)
            for leg in rank.legs:
                yield from _leg(leg)
            yield 0, "", ""
    if not shown:
        yield 0, "unknown", f"no lines of rank {number}"


def _leg(leg: Leg) -> Iterator[Row]:
    (words,) = _words([leg], device=True)
    extras = [f"through the GPU of rank {leg.pxn_proxy}"] if leg.pxn_proxy is not None else []
    extras += ["shared buffers"] if leg.shared_buffers else []
    extras += [leg.how] if leg.carried in ("p2p", "shm") else []
    more = f" ({', '.join(extras)})" if extras else ""
    yield 2, "failed" if leg.reasons else "", f"{words}, channels {number_ranges(leg.channels)}{more}"
    yield 6, "quote", str(leg.line)
    for reason in leg.reasons:
        causes = f" [{', '.join(reason.codes)}]" if reason.codes else ""
        yield 6, "", f"{reason.text}{causes}" + (f"  {reason.line}" if reason.line else "")


# -- words -----------------------------------------------------------------------------------------------


def _count(number: int, word: str, plural: str = "s") -> str:
    return f"{number:,} {word}{'' if number == 1 else plural}"
