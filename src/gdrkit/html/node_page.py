"""The report on one node as a page: does it work, why not, what now, and the path of a byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gdrkit.fabric.ceilings.document import EstimateDocument
from gdrkit.fabric.picture import Picture, picture
from gdrkit.fabric.picture_paths import DIRECT, STAGED, DrawnPaths
from gdrkit.fabric.picture_svg import RULES, TALL, Drawing, scoped
from gdrkit.fabric.topo_document import TopoDocument
from gdrkit.formats.plural import plural
from gdrkit.html import page
from gdrkit.html.ceiling_chart import NAMES, ceiling_chart
from gdrkit.html.figure import DrawnPair, figure, next_step
from gdrkit.html.node_sections import STATE_GLYPHS, fixes, glossary, layers, running, unseen
from gdrkit.html.page import Glyph, file, glyph, rich, safe, section
from gdrkit.html.pairs import DISTANCES, Kind, PairView, gpu_name, gpu_number, net_name, pair_views
from gdrkit.report.answers import first_screen
from gdrkit.report.document import Report
from gdrkit.report.pages import code_page
from gdrkit.report.programs import about_shown, program_lines, with_gpu_slots

PAIRS_SHOWN = 1024
"""Pairs that are drawn: 32 GPUs with 32 ports. Of more, only those of the nearest ports are."""

BROAD = 20
"""Widths of a device: a wider picture has the whole width of the page."""

MANY = 18
"""Columns of a matrix on A4 whose cells have a word; those of wider ones have a sign only."""

REASONS_SHOWN = 3
"""Reasons that the matrix names for one kind of pairs."""

FIRST = ' class="start"'

KIND_GLYPHS: dict[Kind, Glyph] = {
    "direct": "ok", "detour": "warning", "shared": "ok", "staged": "staged", "dead": "bad",
    "unknown": "unknown",
}  # fmt: skip
KIND_WORDS: dict[Kind, str] = {
    "direct": "direct", "detour": "direct, but slower than it could be", "shared": "by shared host memory",
    "staged": "through host memory", "dead": "dead: nothing passes", "unknown": "not known",
}  # fmt: skip


@dataclass(frozen=True)
class NodeReport:
    """What a page is made of. `topo` and `estimate` are None, with the reason, where evidence is missing."""

    report: Report
    topo: TopoDocument | None
    estimate: EstimateDocument | None
    why_no_picture: str
    source: str  # what was read, as the user named it
    target: str  # for the commands that the page suggests; empty for this machine
    made: str  # when, in UTC


def node_page(node: NodeReport) -> str:
    """The page, as one HTML document."""
    report = with_gpu_slots(about_shown(node.report))
    every = tuple(pair_views(report, node.topo, node.estimate)) if node.topo else ()
    shown = every if len(every) <= PAIRS_SHOWN else tuple(_nearest(node.topo, every))
    drawn = picture(node.topo.topology, node.topo.rail_numbers) if node.topo else None
    start = _start(report, shown)
    name = report.node.hostname or node.source
    state = report.verdict.state
    paths = _paths(drawn, shown) if drawn else {}
    main = (
        _first_screen(node, report, shown, drawn, paths, start),
        _matrix(shown, every, start),
        running(report),
        layers(report, node.target),
        fixes(report),
        unseen(report),
        glossary(report),
    )
    return page.report(
        title=f"{name}: {state.value}",
        crumb=_crumb(report, node.topo, name),
        main="".join(main),
        origin=_origin(node),
        style=file("node.css") + scoped(RULES, ".pic"),
        script=file("node.js"),
        data={
            "start": start.key if start else "",
            "pairs": paths,
            "near": {pair.gpu.id: pair.key for pair in _nearest(node.topo, shown)},
        },
    )


def _nearest(topo: TopoDocument | None, pairs: Sequence[PairView]) -> Iterator[PairView]:
    """The pairs of each GPU and its nearest port."""
    near = {rail.gpu: set(rail.nearest) for rail in topo.rails} if topo else {}
    seen: set[str] = set()
    for pair in pairs:
        if pair.net.id in near.get(pair.gpu.id, ()) and pair.gpu.id not in seen:
            seen.add(pair.gpu.id)
            yield pair


def _start(report: Report, pairs: Sequence[PairView]) -> PairView | None:
    """The pair that a reader sees first: a GPU at its own NIC, the worst one first."""
    own = {(gpu.gpu, gpu.device) for gpu in report.gpus if gpu.counts}
    candidates = [pair for pair in pairs if (pair.gpu.address, pair.net.device) in own] or list(pairs)
    order: tuple[Kind, ...] = ("dead", "staged", "detour", "unknown", "shared", "direct")
    return min(candidates, key=lambda pair: order.index(pair.kind), default=None)


# -- first screen ----------------------------------------------------------------------------------


def _crumb(report: Report, topo: TopoDocument | None, name: str) -> str:
    """What the report is about: the host, what is in it, its kernel, and how it was read."""
    kernel = f"Linux {report.node.kernel}" if report.node.kernel else ""
    collected = f"collected {page.time(report.node.collected)}" if report.node.collected else ""
    scope = "" if report.node.scope == "host" else report.node.scope
    words = (safe(word) for word in (_hardware(topo), kernel, report.node.source, scope, collected) if word)
    about = " \N{MIDDLE DOT} ".join(words)
    return f"<b>{safe(name)}</b> {about}"


def _hardware(topo: TopoDocument | None) -> str:
    """The GPUs by model and the number of RDMA devices: 8 NVIDIA H100 80GB HBM3, 8 RDMA devices; "" where no
    GPU is seen."""
    if topo is None or not topo.topology.gpus:
        return ""
    models = Counter(gpu.name or "GPU of unknown model" for gpu in topo.topology.gpus)
    devices = len({net.device for net in topo.topology.nets if net.device})
    counted = [f"{count} {model}" for model, count in models.items()]
    none = "no RDMA device" if topo.topology.nets_known else "RDMA devices not known"
    return ", ".join((*counted, plural(devices, "RDMA device") if devices else none))


def _first_screen(
    node: NodeReport,
    report: Report,
    pairs: Sequence[PairView],
    drawn: Picture | None,
    paths: Mapping[str, DrawnPair],
    start: PairView | None,
) -> str:
    screen = first_screen(report, node.target)
    state = screen.state
    why = "".join(f'<p class="why"><b>{label}</b> {rich(words)}</p>' for label, words in screen.reasons)
    verdict = (
        f'<div class="verdict" id="verdict"><p class="state">{glyph(STATE_GLYPHS[state])}'
        f"<span>{safe(state.value)}</span><small>for {safe(report.verdict.consumer)}</small></p>"
        f'<h1>{rich(screen.title)}</h1>{why}<ul class="programs">{_programs(report)}</ul></div>'
    )
    alike: dict[tuple[str, ...], list[PairView]] = {}
    for pair in pairs:
        alike.setdefault(_about(pair), []).append(pair)
    panels = "".join(_panel(about, same, start) for about, same in alike.items())
    panels = f'<div class="pairs" id="pairs">{panels}</div>' if panels else ""
    step = next_step(report, node.target)
    shown = figure(drawn, node.why_no_picture, paths.get(start.key) if start else None)
    broad = " broad" if drawn and drawn.width > BROAD else ""
    return f'<div class="first{broad}">{verdict}{step}{shown}{panels}</div>'


def _programs(report: Report) -> str:
    lines = program_lines(report)
    return "".join(f"<li><b>{safe(names)}</b> {safe(words)}</li>" for _, names, words in lines)


def _paths(drawn: Picture, pairs: Sequence[PairView]) -> dict[str, DrawnPair]:
    """The paths of each pair by its key; without pairs that the picture does not show."""
    drawn_paths, found = DrawnPaths(drawn), {}
    wide, tall = Drawing(drawn), Drawing(drawn, TALL)
    for pair in pairs:
        direct = drawn_paths.direct(pair.gpu.id, pair.net.id, detour=pair.redirected)
        staged = drawn_paths.staged(pair.gpu.id, pair.net.id)
        if direct is None or staged is None:
            continue
        if pair.gpu.unusable:  # no byte leaves it
            paths = [("", ""), ("", "")]
        elif pair.kind == "shared":
            paths = [(drawing.path(staged, DIRECT), "") for drawing in (wide, tall)]
        else:
            paths = [
                (drawing.path(direct, DIRECT), drawing.path(staged, STAGED)) for drawing in (wide, tall)
            ]
        found[pair.key] = DrawnPair(
            gpu=pair.gpu.id, net=pair.net.id, kind=pair.kind, wide=paths[0], tall=paths[1]
        )
    return found


# -- pairs -----------------------------------------------------------------------------------------


def _about(pair: PairView) -> tuple[str, ...]:
    """The details of a pair, in HTML. Most pairs of a node are alike, and share it."""
    far = DISTANCES.get(pair.distance, "")
    kind = f"<b>{safe(pair.distance)}</b>{f', {far}' if far else ''}" if pair.distance else "not known"
    rows = [("Path type", kind)]
    if pair.nccl:
        rows.append(("NCCL", safe(pair.nccl)))
    chains = () if pair.gpu.unusable else pair.chains  # its links carry nothing
    tight = next((chain.tightest for chain in chains if chain.tightest), None)
    if tight is not None:
        rows.append(("Tightest", safe(f"{NAMES.get(tight.name, tight.name)}: {tight.description}")))
    if pair.because:
        rows.append(("Because of", ", ".join(f"<code>{safe(code)}</code>" for code in pair.because)))
    if pair.confidence:
        rows.append(("Confidence", safe(pair.confidence)))
    listed = "".join(f"<dt>{name}</dt><dd>{words}</dd>" for name, words in rows)
    happens = f'<p class="happens">{glyph(KIND_GLYPHS[pair.kind])} {rich(pair.words)}</p>'
    return happens, f"<dl>{listed}</dl>", ceiling_chart(chains)


def _panel(about: tuple[str, ...], pairs: Sequence[PairView], start: PairView | None) -> str:
    """The text below the names of the pairs. Without scripts the name that a link targets is shown."""
    names = "".join(
        f'<h3 id="{pair.key}"{FIRST if pair is start else ""}>{safe(gpu_name(pair.gpu))} to '
        f"{safe(net_name(pair.net))}</h3>"
        for pair in pairs
    )
    return f'<div class="pair">{names}{"".join(about)}</div>'


def _matrix(shown: Sequence[PairView], every: Sequence[PairView], start: PairView | None) -> str:
    if not shown:
        return ""
    gpus = list({pair.gpu.id: pair.gpu for pair in shown}.values())
    nets = list({pair.net.id: pair.net for pair in shown}.values())
    cells = {(pair.gpu.id, pair.net.id): pair for pair in shown}
    heads = "".join(f'<th scope="col"><span>{safe(net_name(net))}</span></th>' for net in nets)
    rows = "".join(
        f'<tr><th scope="row" title="{safe(gpu_name(gpu))}">{safe(gpu_number(gpu))}</th>'
        + "".join(_cell(cells.get((gpu.id, net.id)), start) for net in nets)
        + "</tr>"
        for gpu in gpus
    )
    key = "".join(_alike(kind, [pair for pair in shown if pair.kind == kind]) for kind in KIND_WORDS)
    left = (
        f" Of {len(every)} pairs, only those of the nearest ports are shown."
        if len(every) > len(shown)
        else ""
    )
    return section(
        "matrix",
        "Every GPU and every NIC",
        f"The word is the path type of nvidia-smi. Choose a cell: picture and limits follow.{left}",
        '<div class="beside"><div class="wide-table" role="region" tabindex="0" '
        'aria-label="Every GPU and every NIC">'
        f'<table class="mx{_size(len(nets))}"><thead><tr><td></td>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        f'<ul class="key">{key}</ul></div>',
    )


def _alike(kind: Kind, pairs: Sequence[PairView]) -> str:
    """How many pairs are of a kind, and the commonest reasons."""
    if not pairs:
        return ""
    reasons = [words for words, _ in Counter(map(_why, pairs)).most_common() if words]
    if len(reasons) > REASONS_SHOWN:
        reasons[REASONS_SHOWN:] = [f"and {len(reasons) - REASONS_SHOWN} more"]
    listed = "".join(f"<small>{words}</small>" for words in reasons)
    return f"<li>{glyph(KIND_GLYPHS[kind])}<div><b>{len(pairs)}</b> {KIND_WORDS[kind]}{listed}</div></li>"


def _why(pair: PairView) -> str:
    """The reason for what happens to a pair, as HTML; "" if it is as it should be."""
    if pair.kind == "dead" and pair.net.is_down:
        return safe(f"{net_name(pair.net)}: {pair.net.state_words}")
    if pair.kind in ("detour", "unknown"):
        return rich(pair.words)
    return (
        f"<code>{safe(pair.because[0])}</code> {rich(code_page(pair.because[0])[0])}" if pair.because else ""
    )


def _size(columns: int) -> str:
    """The class of a matrix that is wide for paper."""
    return " vast" if columns > MANY else " many" if columns > MANY // 2 else ""


def _cell(pair: PairView | None, start: PairView | None) -> str:
    if pair is None:
        return "<td></td>"
    label = f"{gpu_name(pair.gpu)} to {net_name(pair.net)}: {pair.distance}, {KIND_WORDS[pair.kind]}"
    current = ' aria-current="true"' if pair is start else ""
    return (
        f'<td class="{pair.kind}"><a href="#{pair.key}" aria-label="{safe(label)}"{current}>'
        f"{glyph(KIND_GLYPHS[pair.kind])}<span>{safe(pair.distance)}</span></a></td>"
    )


def _origin(node: NodeReport) -> Iterator[tuple[str, str]]:
    yield "Read from", safe(node.source)
    if node.report.node.collected:
        yield "Evidence collected", safe(page.time(node.report.node.collected))
    yield "Report made", safe(node.made)
    yield page.by("gdr report")
    yield "Made of", "what <code>gdr doctor</code>, <code>gdr topo</code> and <code>gdr estimate</code> tell"
    if node.topo and node.topo.nccl:
        yield "NCCL's view", f"of NCCL {safe(node.topo.nccl.version)}, {safe(node.topo.nccl.model_basis)}"
