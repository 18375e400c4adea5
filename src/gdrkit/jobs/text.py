"""The verdict on a job for a terminal: summary, findings, reasons, then a table of ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gdrkit.jobs.document import NcclDocument
from gdrkit.jobs.job import JobFinding, JobPart, LegDirection, LegRoute, Rank
from gdrkit.report.rack_traffic import rack_line
from gdrkit.report.terminal import Row, render

STYLES = {
    "head": "bold", "active": "bold green", "blocked": "bold red", "unknown": "bold magenta",
    "failed": "red", "warning": "yellow", "note": "dim", "quote": "dim",
}  # fmt: skip
EACH = 16
"""Up to this number ranks are listed one by one; with more, equal ones share a row."""
WORDS = 150
CARRIED = {
    "direct": "GDRDMA", "bounced": "through host memory", "socket": "TCP", "nvlink": "NVLink (MNNVL)",
    "p2p": "P2P", "shm": "host SHM",
}  # fmt: skip
ASK = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH"


def text(
    document: NcclDocument, *, rank: int | None = None, every: bool = False, colour: bool = False,
    width: int | None = None,
) -> str:  # fmt: skip
    """The document as lines. `rank`: only that rank, with every route and its line; `every`: all ranks
    so."""
    rows = _detail(document, rank) if rank is not None or every else _page(document)
    return render(rows, STYLES, colour=colour, width=width)


def _page(document: NcclDocument) -> Iterator[Row]:
    yield from _head(document)
    if document.findings:
        yield 0, "head", "Findings"
        for finding in document.findings:
            yield from _finding(finding)
        yield 0, "", ""
    yield from _why(document)
    yield from _refused(document)
    yield from _rack(document)
    yield from _errors(document)
    yield from _rails(document)
    for job in document.jobs:
        yield from _table(job, len(document.jobs) > 1)
    yield from _misleading(document)
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
    legs = document.counts
    if not document.logged.net and not (legs.nvlink and not legs.bounced and not legs.socket):
        missing = "no line says for which GPU and NIC NCCL allows the direct path, which proves nothing"
        yield 0, "note", f"{missing}; {ASK} shows such lines"


def _head(document: NcclDocument) -> Iterator[Row]:
    yield 0, document.verdict.state, f"{document.verdict.state}  {document.verdict.summary}"
    for job in document.jobs:
        version = (
            f"NCCL {' and '.join(job.nccl_versions)}" if job.nccl_versions else "NCCL of unknown version"
        )
        name = f"job {job.number}: " if len(document.jobs) > 1 else ""
        of = f"{len(job.ranks)} of " if job.expected and job.expected != len(job.ranks) else ""
        ranks = of + _count(job.expected if of and job.expected else len(job.ranks), "rank")
        network = f", network {', '.join(job.networks)}" if job.networks else ""
        hosts = len({rank.process.rpartition(":")[0] for rank in job.ranks})
        yield 2, "", f"{name}{version}{network}, {ranks} on {_count(hosts, 'host')}"
    yield 0, "", ""


def _finding(finding: JobFinding) -> Iterator[Row]:
    ranks = f" ({_count(finding.ranks, 'rank')})" if finding.ranks > 1 else ""
    yield 2, finding.status, f"{finding.status}  {finding.code}{ranks}: {finding.seen}"
    yield 6, "quote", f"expected: {finding.expected}"
    if finding.lines:
        yield 6, "quote", ", ".join(map(str, finding.lines))


def _why(document: NcclDocument) -> Iterator[Row]:
    undecided = [why for why in document.why_not_direct if len(why.codes) != 1]  # the others are findings
    if not undecided:
        return
    yield 0, "head", "Why not direct"
    for why in undecided[:EACH]:
        causes = f"; possible causes: {', '.join(why.codes)}" if why.codes else ""
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


def _errors(document: NcclDocument) -> Iterator[Row]:
    if not document.errors:
        return
    yield 0, "head", "Errors"
    for error in document.errors:
        number = "" if error.number is None else f" {error.number}"
        vendor = "" if error.vendor_error is None else f", vendor error {error.vendor_error}"
        where = f"{error.count} x on {_count(error.ranks, 'process', 'es')}"
        yield 2, "failed", f"{error.call}{number}{vendor}: {error.meaning or 'unknown error'} ({where})"
        if len(error.codes) > 1:
            yield 6, "", f"possible causes: {', '.join(error.codes)}"
        yield 6, "quote", f"{error.line}: {_cut(error.words)}"
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
    yield 6, "", "such traffic needs a route between rails; NCCL_CROSS_NIC=0 keeps it on one"
    yield 0, "", ""


def _misleading(document: NcclDocument) -> Iterator[Row]:
    if not document.misleading:
        return
    yield 0, "", ""
    yield 0, "head", "Misleading lines"
    for line in document.misleading:
        times = f" ({line.count:,} such lines)" if line.count > 1 else ""
        yield 2, "quote", f"{line.line}: {_cut(line.words)}{times}"
        yield 6, "", line.truth


# -- ranks -----------------------------------------------------------------------------------------------


def _table(job: JobPart, several: bool) -> Iterator[Row]:
    yield 0, "head", f"Ranks of job {job.number}" if several else "Ranks"
    if len(job.ranks) <= EACH:
        for rank in job.ranks:
            what = "; ".join(_words(rank.routes, device=True)) or _without_channel(rank)
            yield 6, "none", what, f"  {_name(rank)}  "
        return
    groups: dict[tuple[str, ...], list[Rank]] = defaultdict(list)
    for rank in job.ranks:
        groups[tuple(_words(rank.routes, device=False)) or (_without_channel(rank),)].append(rank)
    for words, ranks in sorted(groups.items(), key=lambda group: -len(group[1])):
        numbers = _spans(rank.rank for rank in ranks if rank.rank is not None)
        devices = {route.device for rank in ranks for route in rank.routes if route.device}
        over = f" over {_count(len(devices), 'device')}" if devices else ""
        yield 6, "none", "; ".join(words), f"  {_count(len(ranks), 'rank')} ({numbers}){over}: "


def _name(rank: Rank) -> str:
    number = f"rank {rank.rank}" if rank.rank is not None else "rank ?"
    process = f"  {rank.process}" if ":" in rank.process else ""
    return f"{number}{process}" + (f" GPU {rank.gpu}" if rank.gpu else "")


def _without_channel(rank: Rank) -> str:
    path = f": its network uses {CARRIED[rank.network_path]}" if rank.network_path else ""
    return f"no channel line{path}".replace("uses through", "goes through")


def _words(routes: Iterable[LegRoute], *, device: bool) -> list[str]:
    """The kinds of a rank's routes: `send GDRDMA mlx5_0`, `inside P2P`."""
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for route in routes:
        carried = CARRIED[route.carried] + ("(PCI)" if route.forced_pcie else "")
        carried += " by PXN" if route.pxn_proxy is not None else ""
        inside = "domain" if route.carried == "nvlink" else "inside"
        direction = inside if route.direction is LegDirection.BOTH else route.direction or "CollNet"
        name = route.device or (f"{route.network}/{route.index}" if route.network else "")
        found[direction, carried][name if device else route.network] = None
    order = ("send", "receive", "CollNet", "domain", "inside")
    return [
        " ".join(filter(None, (direction, carried, " ".join(names)))).rstrip()
        for (direction, carried), names in sorted(found.items(), key=lambda item: order.index(item[0][0]))
    ]


def _detail(document: NcclDocument, number: int | None) -> Iterator[Row]:
    shown = False
    for job in document.jobs:
        for rank in job.ranks:
            if number is not None and rank.rank != number:
                continue
            shown = True
            yield 0, "head", (f"job {job.number}  " if len(document.jobs) > 1 else "") + _name(rank)
            for route in rank.routes:
                yield from _route(route)
            yield 0, "", ""
    if not shown:
        yield 0, "unknown", f"no lines of rank {number}"


def _route(route: LegRoute) -> Iterator[Row]:
    (words,) = _words([route], device=True)
    extras = [f"through the GPU of rank {route.pxn_proxy}"] if route.pxn_proxy is not None else []
    extras += ["shared buffers"] if route.shared_buffers else []
    extras += [route.how] if route.carried in ("p2p", "shm") else []
    more = f" ({', '.join(extras)})" if extras else ""
    yield 2, "failed" if route.reasons else "", f"{words}, channels {_spans(route.channels)}{more}"
    yield 6, "quote", str(route.line)
    for reason in route.reasons:
        causes = f" [{', '.join(reason.codes)}]" if reason.codes else ""
        yield 6, "", f"{reason.text}{causes}" + (f"  {reason.line}" if reason.line else "")


# -- words -----------------------------------------------------------------------------------------------


def _count(number: int, word: str, plural: str = "s") -> str:
    return f"{number:,} {word}{'' if number == 1 else plural}"


def _cut(words: str) -> str:
    words = " ".join(words.split())
    return words if len(words) <= WORDS else words[:WORDS] + "..."


def _spans(numbers: Iterable[int]) -> str:
    """Numbers as ranges: 0-7, 12."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in spans]
    return ", ".join(words[:12]) + (", ..." if len(words) > 12 else "") or "unnumbered"
