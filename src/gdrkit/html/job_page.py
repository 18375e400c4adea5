"""The report on a job's NCCL logs: ranks x network devices, and why a leg is not direct."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gdrkit.evidence.quoting import quoted
from gdrkit.formats.plural import plural
from gdrkit.html import page
from gdrkit.html.node_sections import STATE_GLYPHS
from gdrkit.html.page import Glyph, command, file, glyph, rich, safe, section, table
from gdrkit.jobs.document import NcclDocument, WhyKey, why_key, why_sections
from gdrkit.jobs.hosts import JobHosts, by_host, contrast, device, headline, next_steps
from gdrkit.jobs.job import JobFinding, LegDirection, Rank
from gdrkit.jobs.missing_ranks import missing_words
from gdrkit.programs.nccl.log_records import Carrier
from gdrkit.report.answers import reason, works
from gdrkit.report.document import Report
from gdrkit.report.pages import advice, code_page

EACH = 16
"""Ranks that have a row each; of more, hosts have one."""
ROWS = 256
"""The most rows of the table."""
FIT = 3
"""Columns of devices beside the names of ranks in 390 pixels."""

CARRIED: dict[Carrier, tuple[Glyph, str]] = {
    Carrier.DIRECT: ("ok", "direct"), Carrier.BOUNCED: ("staged", "host memory"),
    Carrier.SOCKET: ("bad", "TCP"), Carrier.NVLINK: ("ok", "NVLink"),
}  # fmt: skip
WORDS = {
    Carrier.DIRECT: "direct: GPUDirect RDMA", Carrier.BOUNCED: "through host memory",
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
    parts = (
        _first(job),
        _findings(document),
        _matrix(document),
        _why(job),
        _node(job),
        _errors(document),
        _misleading(document),
    )
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
    state, groups = document.verdict.state, by_host(document)
    return (
        f'<div class="verdict" id="verdict"><p class="state">{glyph(STATE_GLYPHS[state])}'
        f"<span>{safe(state)}</span></p><h1>{_sentence(document, groups)}</h1>"
        f'<p class="why">{safe(document.verdict.summary)}</p>{_missing(document)}{_next(document, groups)}'
        f'<ul class="key">{shown}</ul></div>'
    )


def _missing(document: NcclDocument) -> str:
    words = (missing_words(job.missing) for job in document.jobs if job.missing is not None)
    return "".join(f"<p>{safe(one[0].upper() + one[1:])}.</p>" for one in words)


def _next(document: NcclDocument, groups: tuple[JobHosts, ...]) -> str:
    """What the hosts that go directly show, and what to do on one that does not."""
    if not headline(groups):
        return ""
    words = contrast(document, groups)
    steps = "".join(f"<li>{rich(step)}</li>" for step in next_steps(document, groups))
    listed = f'<h2>Next</h2><ul class="steps">{steps}</ul>' if steps else ""
    return (f"<p>{safe(words)}.</p>" if words else "") + listed


def _sentence(document: NcclDocument, groups: tuple[JobHosts, ...]) -> str:
    counts = document.counts
    if sentence := headline(groups):
        return f"{safe(sentence[0].upper() + sentence[1:])}."
    legs = counts.direct + counts.bounced + counts.socket
    if not legs and document.jobs and all(job.on_one_host for job in document.jobs):
        return "No network is needed: all ranks are on one host."
    if not legs:
        return "The logs show no leg over a NIC."
    if counts.direct == legs and document.verdict.state != "active":
        return f"{safe(document.verdict.summary)}."
    if counts.direct == legs:
        return "Every leg over the network is direct."
    return f"{legs - counts.direct} of {legs} legs over the network are not direct."


def _findings(document: NcclDocument) -> str:
    """Each finding with the step that the job needs."""
    if not document.findings:
        return ""
    cards = "".join(
        f'<div class="entry"><h3><code>{safe(one.code)}</code>: {safe(one.seen)}</h3>'
        f"<p><small>{safe(', '.join(map(str, one.lines)))}</small></p>"
        f"<p><b>What to do.</b> {_doing(one)}</p></div>"
        for one in document.findings
    )
    return section("findings", "Findings", "What the logs prove.", cards)


def _doing(finding: JobFinding) -> str:
    """The step that this job needs, or that of the code's page."""
    step = finding.todo
    return rich(f"{step[0].upper()}{step[1:]}.") if step else rich(advice(finding.code))


# -- ranks x devices -------------------------------------------------------------------------------

ShownLeg = tuple[LegDirection, Carrier, int]
Cell = tuple[ShownLeg, ...]
"""What passes between a rank and a device, with the number of its reason, or 0."""


def _matrix(document: NcclDocument) -> str:
    ranks = [rank for part in document.jobs for rank in part.ranks]
    places = {(why.text, why.codes): number for number, why in enumerate(document.why_not_direct, 1)}
    sections = why_sections(document.jobs).items()
    numbers = {key: places[why.text, why.codes] for key, why in sections}
    joined = len(ranks) > EACH
    rows = (
        _of_hosts(ranks, numbers) if joined else [(_name(rank), _cells([rank], numbers)) for rank in ranks]
    )
    devices = sorted({device for _, cells in rows for device in cells})
    if not devices:
        return ""
    heads = "".join(f'<th scope="col">{safe(device)}</th>' for device in devices)
    body = "".join(
        f'<tr><th scope="row">{name}</th>'
        + "".join(_cell(cells.get(device, ())) for device in devices)
        + "</tr>"
        for name, cells in rows[:ROWS]
    )
    left = f" {len(rows) - ROWS} rows more are in gdr nccl --all." if len(rows) > ROWS else ""
    title = f"{'Hosts' if joined else 'Ranks'} and network devices"
    return section(
        "ranks",
        title,
        f"Only channel lines count as proof. A leg that is not direct leads to its reason; "
        f"one without a direction is for both.{left}",
        f'{_hint(len(devices))}<div class="wide-table" role="region" tabindex="0" aria-label="{title}">'
        f'<table class="legs"><thead><tr><td></td>{heads}</tr></thead><tbody>{body}</tbody></table></div>',
    )


def _hint(devices: int) -> str:
    """That a table is wider than a telephone; a few devices fit on one."""
    if devices <= FIT:
        return ""
    return f'<p class="hint">Scroll the table sideways: it has {plural(devices, "device")}.</p>'


def _cells(ranks: Iterable[Rank], numbers: dict[WhyKey, int]) -> dict[str, Cell]:
    """What passes between ranks and each device."""
    found: dict[str, dict[tuple[LegDirection, Carrier, int], None]] = {}
    for leg in (leg for rank in ranks for leg in rank.legs):
        if leg.carried in CARRIED and (name := device(leg)):
            why = next((numbers.get(why_key(leg, reason), 0) for reason in leg.reasons), 0)
            found.setdefault(name, {})[leg.direction, leg.carried, why] = None
    return {name: tuple(sorted(_joined(legs))) for name, legs in found.items()}


def _joined(
    legs: Iterable[tuple[LegDirection, Carrier, int]],
) -> Iterator[tuple[LegDirection, Carrier, int]]:
    """Legs with one in place of two that differ only in the direction: eight devices are to fit."""
    directions: dict[tuple[Carrier, int], set[LegDirection]] = {}
    for direction, carried, why in legs:
        directions.setdefault((carried, why), set()).add(direction)
    for (carried, why), some in directions.items():
        if some >= {LegDirection.SEND, LegDirection.RECEIVE}:
            some = some - {LegDirection.SEND, LegDirection.RECEIVE} | {LegDirection.BOTH}
        for direction in some:
            yield direction, carried, why


def _of_hosts(ranks: Sequence[Rank], numbers: dict[WhyKey, int]) -> list[tuple[str, dict[str, Cell]]]:
    """A row for the hosts that have the same cells, those of the fewest hosts first."""
    hosts: dict[str, list[Rank]] = {}
    for rank in ranks:
        hosts.setdefault(rank.host, []).append(rank)
    groups: dict[tuple[tuple[str, Cell], ...], list[str]] = {}
    for host, members in hosts.items():
        groups.setdefault(tuple(sorted(_cells(members, numbers).items())), []).append(host)
    return [
        (_hosts_name(same, sum(len(hosts[host]) for host in same)), dict(cells))
        for cells, same in sorted(groups.items(), key=lambda group: len(group[1]))
    ]


def _hosts_name(hosts: Sequence[str], ranks: int) -> str:
    """Short, so that a telephone shows cells beside it."""
    name = ", ".join(hosts) if len(hosts) <= 2 else f"{hosts[0]} and {len(hosts) - 1} more"
    return f"{safe(name)} <small>{plural(ranks, 'rank')}</small>"


def _name(rank: Rank) -> str:
    return f"{safe(rank.name)} <small>{safe(rank.host)}</small>"


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
    cards, found = [], {finding.code for finding in job.document.findings}  # these have their step
    for number, why in enumerate(job.document.why_not_direct, 1):
        ranks = f"{why.ranks} ranks" if why.ranks != 1 else "1 rank"
        codes = "".join(f"<li>{_code(code, job.node)}</li>" for code in why.codes)
        doing = advice(why.codes[0]) if len(why.codes) == 1 and why.codes[0] not in found else ""
        cards.append(
            f'<div class="entry" id="why-{number}"><h3>{ranks}: {safe(why.text)}</h3>'
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
        ask = command(f"gdr report {quoted(job.source)} node.tar.gz")
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
