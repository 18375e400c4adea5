"""The report on a job's NCCL logs: ranks x network devices, and why a leg is not direct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gdrkit.html import page
from gdrkit.html.node_sections import STATE_GLYPHS
from gdrkit.html.page import Glyph, command, file, glyph, rich, safe, section, table
from gdrkit.jobs.document import NcclDocument
from gdrkit.jobs.job import LegDirection, LegRoute, Rank
from gdrkit.programs.nccl.log_records import Carrier
from gdrkit.report.answers import advice, reason, works
from gdrkit.report.document import Report
from gdrkit.report.pages import code_page

ROWS = 256
"""Rows of the table; ranks that are alike share one where there are more."""

CARRIED: dict[Carrier, tuple[Glyph, str]] = {
    Carrier.DIRECT: ("ok", "direct"), Carrier.BOUNCED: ("staged", "bounced"), Carrier.SOCKET: ("bad", "TCP"),
    Carrier.NVLINK: ("ok", "NVLink"),
}  # fmt: skip
WORDS = {
    Carrier.DIRECT: "direct: GPUDirect RDMA", Carrier.BOUNCED: "bounced: through host memory",
    Carrier.SOCKET: "TCP, through host memory and the kernel", Carrier.NVLINK: "NVLink between hosts",
}  # fmt: skip
DIRECTIONS = {
    LegDirection.SEND: "send", LegDirection.RECEIVE: "receive", LegDirection.BOTH: "",
    LegDirection.NOT_PRINTED: "",
}  # fmt: skip


@dataclass(frozen=True)
class JobReport:
    """What the page is made of. `node` is the report on a node of the job, if one was given."""

    document: NcclDocument
    source: str
    node: Report | None
    node_source: str
    made: str


def job_page(job: JobReport) -> str:
    """The page, as one HTML document."""
    document = job.document
    parts = (_first(job), _matrix(document), _why(job), _node(job), _errors(document), _misleading(document))
    ranks = f"{document.counts.ranks} ranks" if document.counts.ranks != 1 else "1 rank"
    versions = sorted({version for part in document.jobs for version in part.nccl_versions})
    nccl = f", NCCL {' and '.join(versions)}" if versions else ""
    return page.report(
        title=f"{job.source}: {document.verdict.state}",
        crumb=f"<b>{safe(job.source)}</b> {ranks}{safe(nccl)}",
        main="".join(parts),
        origin=_origin(job),
        style=file("job.css"),
        script="",
        data={},
    )


def _origin(job: JobReport) -> Iterator[tuple[str, str]]:
    yield "Read from", safe(job.source)
    if job.node is not None:
        yield "The node's evidence", safe(job.node_source)
    yield "Report made", safe(job.made)
    yield page.by("gdr report")
    yield "Made of", "what <code>gdr nccl</code> tells"


def _first(job: JobReport) -> str:
    document, counts = job.document, job.document.counts
    numbers = (counts.direct, counts.bounced, counts.socket, counts.nvlink)
    shown = "".join(
        f"<li>{glyph(CARRIED[how][0])} <b>{number}</b> {safe(WORDS[how])}</li>"
        for number, how in zip(numbers, CARRIED, strict=True)
        if number
    )
    state = document.verdict.state
    return (
        f'<div class="verdict" id="verdict"><p class="state">{glyph(STATE_GLYPHS[state])}'
        f"<span>{safe(state)}</span></p><h1>{_sentence(document)}</h1>"
        f'<p class="why">{safe(document.verdict.summary)}</p><ul class="key">{shown}</ul></div>'
    )


def _sentence(document: NcclDocument) -> str:
    counts = document.counts
    legs = counts.direct + counts.bounced + counts.socket
    if not legs:
        return "The logs show no leg over a NIC."
    if counts.direct == legs:
        return "Every leg over the network is direct."
    return f"{legs - counts.direct} of {legs} legs over the network are not direct."


# -- ranks x devices -------------------------------------------------------------------------------

Cell = tuple[tuple[LegDirection, Carrier, int], ...]
"""What passes between a rank and a device, with the number of its reason, or 0."""


def _device(route: LegRoute) -> str:
    """The network device of a route, by name if a line shows it."""
    if route.device:
        return route.device
    return f"{route.network} {route.index}" if route.index is not None else route.network


def _matrix(document: NcclDocument) -> str:
    ranks = [rank for part in document.jobs for rank in part.ranks]
    numbers = {(why.text, why.codes): number for number, why in enumerate(document.why_not_direct, 1)}
    rows = [(rank, _cells(rank, numbers)) for rank in ranks]
    devices = sorted({device for _, cells in rows for device in cells})
    if not devices:
        return ""
    shown = _joined(rows) if len(rows) > ROWS else [([rank], cells) for rank, cells in rows]
    heads = "".join(f'<th scope="col">{safe(device)}</th>' for device in devices)
    body = "".join(
        f'<tr><th scope="row">{_names(same)}</th>'
        + "".join(_cell(cells.get(device, ())) for device in devices)
        + "</tr>"
        for same, cells in shown[:ROWS]
    )
    left = f" {len(shown) - ROWS} rows more are in gdr nccl --all." if len(shown) > ROWS else ""
    return section(
        "ranks",
        "Ranks and network devices",
        f"Only channel lines count as proof. A leg that is not direct leads to its reason.{left}",
        '<div class="wide-table" role="region" tabindex="0" aria-label="Ranks and network devices">'
        f'<table class="legs"><thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody></table></div>',
    )


def _cells(rank: Rank, numbers: dict[tuple[str, tuple[str, ...]], int]) -> dict[str, Cell]:
    found: dict[str, dict[tuple[LegDirection, Carrier, int], None]] = {}
    for route in rank.routes:
        if route.carried in CARRIED and (device := _device(route)):
            why = next((numbers.get((r.text, r.codes), 0) for r in route.reasons), 0)
            found.setdefault(device, {})[route.direction, route.carried, why] = None
    return {device: tuple(legs) for device, legs in found.items()}


def _joined(rows: Sequence[tuple[Rank, dict[str, Cell]]]) -> list[tuple[list[Rank], dict[str, Cell]]]:
    """Ranks in a row that have the same cells, joined."""
    joined: list[tuple[list[Rank], dict[str, Cell]]] = []
    for rank, cells in rows:
        if joined and joined[-1][1] == cells:
            joined[-1][0].append(rank)
        else:
            joined.append(([rank], cells))
    return joined


def _names(ranks: Sequence[Rank]) -> str:
    name = safe(ranks[0].name) if len(ranks) == 1 else f"{safe(ranks[0].name)} to {safe(ranks[-1].name)}"
    return f"{name} <small>{safe(ranks[0].host)}</small>"


def _cell(legs: Cell) -> str:
    if not legs:
        return "<td></td>"
    return f"<td>{''.join(map(_leg, legs))}</td>"


def _leg(leg: tuple[LegDirection, Carrier, int]) -> str:
    direction, carried, why = leg
    sign, word = CARRIED[carried]
    words = f"{glyph(sign)} <span>{safe(f'{DIRECTIONS[direction]} {word}'.strip())}</span>"
    return f'<a class="leg" href="#why-{why}">{words}</a>' if why else f'<span class="leg">{words}</span>'


# -- why -------------------------------------------------------------------------------------------


def _why(job: JobReport) -> str:
    """Each reason with its log line, and the finding of the node that shows the same cause."""
    cards = []
    for number, why in enumerate(job.document.why_not_direct, 1):
        ranks = f"{why.ranks} ranks" if why.ranks != 1 else "1 rank"
        codes = "".join(f"<li>{_code(code, job.node)}</li>" for code in why.codes)
        doing = advice(why.codes[0]) if len(why.codes) == 1 else ""
        cards.append(
            f'<div class="way" id="why-{number}"><h3>{ranks}: {safe(why.text)}</h3>'
            f"<p><small>{safe(why.line)}</small></p>"
            + (f"<ul>{codes}</ul>" if codes else "<p>No cause is known.</p>")
            + (f"<p><b>What to do.</b> {rich(doing)}</p>" if doing else "")
            + "</div>"
        )
    if not cards:
        return ""
    about = "The causes that a log line allows; where there are several, only the node's evidence decides."
    return section("why", "Why not direct", about, "".join(cards))


def _code(code: str, node: Report | None) -> str:
    words = f"<code>{safe(code)}</code> {safe(code_page(code)[0])}"
    found = [f for f in node.findings if f.code == code and f.status != "unknown"] if node else []
    if found:
        where = f" {found[0].subject}" if found[0].subject not in ("", "node") else ""
        seen = f"<b>The node shows it</b>{safe(where)}: {rich(found[0].seen)}"
        return f'{words} {seen} (<a href="#node">its verdict</a>)'
    return f"{words} The node does not show it." if node is not None else words


def _node(job: JobReport) -> str:
    """The verdict of the node, or how to get it."""
    if job.node is None:
        ask = command("gdr report job.log bundle.tar.gz")
        return section(
            "node", "The node", "Beside the logs, name a node of the job: its cause follows.", ask
        )
    state = job.node.verdict.state
    _, why = reason(job.node)
    name = job.node.node.hostname or job.node_source
    return section(
        "node",
        "The node",
        f"What gdr doctor says of {name}.",
        f"<h3>{glyph(STATE_GLYPHS[state])} {safe(name)}: {safe(state.value)}</h3>"
        f"<p>{rich(works(job.node))} {rich(why)}</p>",
    )


def _errors(document: NcclDocument) -> str:
    if not document.errors:
        return ""
    rows = (
        (
            f"<code>{safe(error.call)}</code> {safe(error.number if error.number is not None else '')}",
            safe(error.meaning or "unknown error"),
            ", ".join(f"<code>{safe(code)}</code>" for code in error.codes),
            f"{error.count} x, first at {safe(error.line)}",
        )
        for error in document.errors
    )
    heads = ("call", "meaning", "possible causes", "where")
    return section("errors", "Errors", "What failed in the job.", table(heads, rows))


def _misleading(document: NcclDocument) -> str:
    if not document.misleading:
        return ""
    rows = ((f"<code>{safe(m.words)}</code>", rich(m.truth), safe(m.line)) for m in document.misleading)
    about = "Lines that are often read as more than they show."
    return section("misleading", "Read with care", about, table(("line", "what it shows", "where"), rows))
