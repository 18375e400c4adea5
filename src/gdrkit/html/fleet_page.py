"""The report on many nodes as a page: how many need something, why, what to do first, who is odd."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gdrkit.agent.streams import visible
from gdrkit.catalogue import CODES, rule_of
from gdrkit.evidence.quoting import quoted
from gdrkit.fleet.document import READY_NOW, Change, FleetReport, Group, NodeRow, Standing, TraitValue
from gdrkit.fleet.groups import by_advice, numbers_of
from gdrkit.fleet.headline import in_need
from gdrkit.fleet.hostlist import expand, fold, natural
from gdrkit.fleet.judge import answers_by_another_name, is_of_shared_name
from gdrkit.fleet.peers import differing, kinds, norm, odd_alike
from gdrkit.fleet.racks import rack_of
from gdrkit.formats.duration import duration
from gdrkit.formats.plural import plural
from gdrkit.html import page
from gdrkit.html.page import Glyph, copyable, file, glyph, rich, safe, section, table
from gdrkit.report.pages import code_page
from gdrkit.rules.rule import Layer

STANDING_GLYPHS: dict[Standing, Glyph] = {
    Standing.READY: "ok", Standing.WARNINGS: "warning", Standing.NEXT_BOOT: "warning",
    Standing.BLOCKED: "bad", Standing.UNKNOWN: "unknown", Standing.UNREACHABLE: "unreachable",
    Standing.UNREADABLE: "unreachable", Standing.IMPOSSIBLE: "impossible",
}  # fmt: skip
STANDINGS = tuple(STANDING_GLYPHS)
LAYERS = tuple(Layer)
DIFFERENCES_SHOWN = 40
"""Traits in which a node differs from its peer; a node that differs in more is of another kind."""
LIST_SHOWN = 100
"""Characters of a list of nodes in a cell of a table."""
EXAMPLE = "gpu147, or rack:r12 cause:port-down"
SYNTAX = (
    "Words that must all match; also standing:, cause:, layer:, rack:, group: or node: with alternatives, "
    "node:a,b"
)
SUGGESTIONS = 200
"""Words that the filter suggests."""


def fleet_page(report: FleetReport, source: str, racks: Mapping[str, str] | None = None) -> str:
    """The page of a run, as one HTML document. `source` is what was asked, as the user named it; `racks` has
    the rack of each node, where their names do not show it."""
    total = len(report.nodes)
    main = (_first, _groups, _renamed, _repeated, _odd, _drift, _mismatches, _changes)
    return page.report(
        title=in_need(report),
        crumb=f"<b>{safe(source)}</b> {plural(total, 'node')}"
        + (f" \N{MIDDLE DOT} read {safe(page.time(report.started))}" if report.started else ""),
        main="".join(part(report) for part in main),
        origin=(
            ("Read from", safe(source)),
            ("Begun", safe(page.time(report.started) if report.started else "not known")),
            ("Took", duration(report.seconds)),
            page.by("gdr fleet report"),
        ),
        style=file("fleet.css"),
        script=file("fleet.js"),
        data=_data(report, racks or {}),
    )


def _first(report: FleetReport) -> str:
    """One sentence, the counts, and what to do first."""
    words = f"{in_need(report)}."
    if not report.complete:
        words += " The run was interrupted."
    counts = "".join(
        f"<li>{glyph(STANDING_GLYPHS[s])} <b>{report.counts[s]}</b><span>{safe(s.value)}</span></li>"
        for s in STANDINGS
        if s in report.counts
    )
    steps = "".join(
        f"<li><b>{words}</b> {rich(advice)}{copyable(nodes)}</li>" for words, advice, nodes in _steps(report)
    )
    first = f'<div class="next"><h2>Do this first</h2><ol>{steps}</ol></div>' if steps else ""
    return (
        f'<div class="first fleet"><div class="verdict" id="verdict"><h1>{safe(words)}</h1>'
        f'<ul class="counts">{counts}</ul></div>{_map(report)}{first}</div>'
    )


def _steps(report: FleetReport) -> Iterator[tuple[str, str, str]]:
    """What helps how many nodes, what to do, and the nodes; what frees the most comes first."""
    for fix in report.fixes:
        yield f"frees {plural(fix.frees, 'node')}", fix.advice, fix.nodes
    for advice, groups in by_advice(report.groups).items():
        nodes = [name for group in groups for name in expand(group.nodes)]
        yield plural(len(nodes), "node"), advice, fold(nodes)


def _map(report: FleetReport) -> str:
    """The map, which a script draws; what it shows is in the tables below, too."""
    hints: dict[str, None] = {standing.value: None for standing in report.counts}
    hints.update((cause, None) for group in report.groups for cause in group.causes)
    hints.update((row.name, None) for row in report.nodes)
    key = "".join(
        f'<li><i class="cell {s.value}"></i>{s.value}</li>' for s in STANDINGS if s in report.counts
    )
    options = "".join(f'<option value="{safe(hint)}"></option>' for hint in list(hints)[:SUGGESTIONS])
    return (
        section(
            "nodes",
            "Every node",
            "Point at a node, or move with the arrow keys. The number is its group.",
            '<div class="bar script-only"><label>Filter <input id="filter" type="search" list="hints" '
            f'placeholder="{EXAMPLE}" title="{SYNTAX}" autocomplete="off" '
            f'spellcheck="false"></label><datalist id="hints">{options}</datalist> '
            '<span id="matches"></span><span class="views" role="group" aria-label="Order of the map">'
            '<button type="button" data-view="racks" aria-pressed="true">Racks</button>'
            '<button type="button" data-view="layers" aria-pressed="false">Layers</button></span></div>'
            '<canvas id="map" class="script-only" tabindex="0" role="application" '
            'aria-label="Map of the nodes: arrow keys move from node to node"></canvas>'
            f'<ul class="key script-only">{key}</ul>',
        )
        + '<div id="drawer" role="region" aria-label="The chosen node" hidden></div>'
    )


def _groups(report: FleetReport) -> str:
    """The groups; advice that an earlier one has is not repeated."""
    first: dict[str, Group] = {}
    cards = [_group(group, first.setdefault(group.advice, group)) for group in report.groups]
    return section("groups", "The same verdict, the same causes", "Each list can be copied.", "".join(cards))


def _group(group: Group, like: Group) -> str:
    """A group; `like` is the first one with the same advice."""
    rails = f"rail {', '.join(map(str, group.rails))}: " if group.rails else ""
    causes = "; ".join(group.causes) or group.summary
    known = [code for code in group.causes if code in CODES]
    title = f"<p>{rich(code_page(known[0])[0])}</p>" if known else ""
    same = f'The same as for <a href="#group-{like.number}">group {like.number}</a>.'
    advice = same if like is not group else rich(group.advice)
    advice = f"<p>{advice}</p>" if group.advice else ""
    sign = f'{glyph(STANDING_GLYPHS[group.standing])} <b class="number">{group.number}</b>'
    return (
        f'<div class="entry" id="group-{group.number}"><h3>{sign}'
        f" {_counted(group.count, group.standing)} <span>{safe(rails + causes)}</span></h3>"
        f"{title}{advice}{copyable(group.nodes)}</div>"
    )


def _counted(count: int, standing: Standing) -> str:
    """3 blocked, 1 with warnings, 2 ready now, blocked after the next boot."""
    if standing is Standing.NEXT_BOOT:
        return f"{count} {READY_NOW}"
    with_ = "with " if standing is Standing.WARNINGS else ""
    return f"{count} {with_}{safe(standing.value)}"


def _odd(report: FleetReport) -> str:
    rows = (
        (
            f"<b>{_counted(len(alike), alike[0].standing)}</b> {_named(fold(n.node for n in alike))}",
            "<br>".join(
                f"{safe(d.trait)} is <code>{safe(d.value)}</code> on {d.same} of {d.of}; "
                f"{d.usual} have <code>{safe(d.peers)}</code>"
                for d in alike[0].differences
            ),
        )
        for alike in odd_alike(report.odd)
    )
    if not report.odd:
        return ""
    return section(
        "odd", "The odd ones out", "The oddest first.", table(("nodes", "differ in"), rows, "odd")
    )


def _renamed(report: FleetReport) -> str:
    rows = [(safe(row.name), safe(row.calls_itself)) for row in report.nodes if answers_by_another_name(row)]
    if not rows:
        return ""
    about = "These nodes call themselves otherwise than they were asked: an alias, or a wrong address."
    return section("renamed", "Answered by another name", about, table(("asked", "calls itself"), rows))


def _repeated(report: FleetReport) -> str:
    rows = [(safe(row.calls_itself), safe(row.name)) for row in report.nodes if is_of_shared_name(row)]
    if not rows:
        return ""
    about = "Evidence of one host name in several files: each counts as a node, and is called as its file."
    heads = ("host name", "file")
    return section("repeated", "Host names that appear more than once", about, table(heads, rows))


def _drift(report: FleetReport) -> str:
    rows = ((safe(d.trait), safe(d.kind), _values(d.values)) for d in report.drift)
    if not report.drift:
        return ""
    heads = ("what", "nodes with", "values")
    return section("drift", "Drift", "What nodes of one kind do not share.", table(heads, rows))


def _mismatches(report: FleetReport) -> str:
    rows = ((safe(m.trait), safe(m.kind), rich(m.shows_as), _values(m.values)) for m in report.mismatches)
    if not report.mismatches:
        return ""
    about = "What must be the same on all nodes of a job."
    heads = ("what", "nodes with", "it shows as", "values")
    return section("mismatches", "Not the same", about, table(heads, rows))


def _values(values: Iterable[TraitValue]) -> str:
    return "".join(
        f"<div><b>{v.count}</b> <code>{safe(v.value)}</code> {_named(v.nodes)}</div>" for v in values
    )


def _named(nodes: str) -> str:
    """A list of nodes in a cell of a table; a long one is folded."""
    if len(nodes) <= LIST_SHOWN:
        return f"<small>{safe(nodes)}</small>"
    return f"<details><summary><small>which nodes</small></summary><small>{safe(nodes)}</small></details>"


def _changes(report: FleetReport) -> str:
    if not report.since:
        return ""
    rows = ((_change(change), copyable(change.nodes)) for change in report.changes)
    about = f"Compared with the run of {page.time(report.since)}."
    content = table(("change", "nodes"), rows) if report.changes else "<p>Nothing changed.</p>"
    return section("changes", "What changed", about, content)


def _change(change: Change) -> str:
    words = " \N{RIGHTWARDS ARROW} ".join(word for word in (change.before, change.after) if word)
    return f"<b>{change.count} {safe(change.kind)}</b> {safe(words)}"


# -- data of the map -------------------------------------------------------------------------------


class _WordTable:
    """Words by number, each once, with what a terminal would obey as escapes."""

    def __init__(self) -> None:
        self.list: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        word = visible(text)
        if word not in self._numbers:
            self._numbers[word] = len(self.list)
            self.list.append(word)
        return self._numbers[word]


def _layer(row: NodeRow) -> int:
    """The number of the layer that a node's first cause is in; -1 for none."""
    codes = (cause.partition(":")[0] for cause in row.causes)
    return next((LAYERS.index(rule_of(c).layer) for c in codes if c in CODES), -1)


def _data(report: FleetReport, racks: Mapping[str, str]) -> dict[str, object]:
    """The nodes by name; of each only the traits in which it differs from the healthiest of its kind."""
    word = _WordTable()
    numbers = numbers_of(report.groups)
    peers = _peers(report.nodes)
    by_rack = {row.name: racks.get(row.name) or rack_of(row.name) for row in report.nodes}
    nodes = []
    for row in sorted(report.nodes, key=lambda row: (natural(by_rack[row.name]), natural(row.name))):
        peer = peers.get(row.name)
        different = differing(row, peer) if peer is not None and peer is not row else {}
        nodes.append(
            (
                visible(row.name),
                STANDINGS.index(row.standing),
                numbers.get(row.name, 0),
                word(row.summary),
                [word(cause) for cause in row.causes],
                word(peer.name) if peer is not None and peer is not row else -1,
                [(word(t), word(a), word(b)) for t, (a, b) in list(different.items())[:DIFFERENCES_SHOWN]],
                [word(ask) for ask in row.to_find_out[:3]],
                _layer(row),
                word(by_rack[row.name]),
                word(quoted(row.target)),
            )
        )
    advice = [-1] * (len(report.groups) + 1)
    for group in report.groups:
        advice[group.number] = word(group.advice.replace("`", "")) if group.advice else -1
    return {
        "standings": [s.value for s in STANDINGS],
        "glyphs": [STANDING_GLYPHS[s] for s in STANDINGS],
        "layers": [layer.value for layer in LAYERS],
        "advice": advice,
        "words": word.list,
        "nodes": nodes,
    }


def _peers(rows: Sequence[NodeRow]) -> Mapping[str, NodeRow]:
    """For each node the healthiest of its kind: ready if one is, and the most like most of them."""
    found: dict[str, NodeRow] = {}
    for nodes in kinds(rows).values():
        usual = norm(nodes)

        def health(row: NodeRow, usual: Mapping[str, str] = usual) -> tuple[bool, int]:
            return row.standing is not Standing.READY, -sum(usual.get(t) == v for t, v in row.traits.items())

        best = min(nodes, key=health)
        found.update((node.name, best) for node in nodes)
    return found
