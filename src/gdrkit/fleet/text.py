"""Render the report on a fleet for a terminal: one sentence, groups, what to fix first, drift, odd nodes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from gdrkit.fleet import cabling_text
from gdrkit.fleet.cabling import cabling
from gdrkit.fleet.document import (
    WELL,
    Change,
    Difference,
    FleetReport,
    Group,
    NodeRow,
    OddNode,
    Standing,
    TraitValue,
)
from gdrkit.fleet.hostlist import fold
from gdrkit.fleet.peers import differing
from gdrkit.fleet.traits import MUST_MATCH
from gdrkit.report.terminal import Row, render

STYLES = {
    "ready": "bold green", "warnings": "yellow", "blocked": "bold red", "unknown": "bold magenta",
    "unreachable": "red", "unreadable": "red", "impossible": "yellow", "worse": "bold red",
    "better": "green",
}  # fmt: skip
WORDS = {Standing.WARNINGS: "with warnings"}
INDENT = 14
GROUPS_SHOWN, FIXES_SHOWN, ODD_SHOWN, DIFFERENCES_SHOWN, VALUES_SHOWN = 20, 5, 10, 4, 3
LIST_SHOWN = 60
"""Characters of a hostlist in a line; --group and --nodes-only show it whole."""


def text(report: FleetReport, *, colour: bool = False, width: int | None = None) -> str:
    """The report as lines of `width` columns."""
    return render(_lines(report), STYLES, colour=colour, width=width)


def sentence(report: FleetReport) -> str:
    """How many nodes there are, and how many of each standing."""
    total = len(report.nodes)
    order = (Standing.READY, Standing.WARNINGS, Standing.BLOCKED, Standing.IMPOSSIBLE)
    shown = [*order, *(standing for standing in Standing if standing not in order)]
    counts = (f"{report.counts[s]} {WORDS.get(s, s)}" for s in shown if s in report.counts)
    took = f"  in {duration(report.seconds)}" if report.seconds else ""
    return f"{total} node{'' if total == 1 else 's'}: {', '.join(counts)}{took}"


def duration(seconds: float) -> str:
    """A time in seconds or minutes."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _lines(report: FleetReport) -> Iterator[Row]:
    yield 0, "bold", sentence(report)
    if not report.complete:
        yield 0, "unknown", "Interrupted: nodes without an answer are listed as unreachable."
    yield from _groups(report)
    yield from _fixes(report)
    yield from _drift(report)
    yield from _mismatches(report)
    if report.cabling:
        yield from cabling_text.lines(report.cabling, report.nodes)
    yield from _odd(report)
    yield from _learned(report)
    yield from _changes(report)
    yield 0, "", ""
    yield 0, "dim", "--group N lists a group, --node NAME shows a node, --compare A B what differs"


def _groups(report: FleetReport) -> Iterator[Row]:
    shown = [group for group in report.groups if group.standing not in WELL]
    if shown:
        yield 0, "", ""
    for group in shown[:GROUPS_SHOWN]:
        yield INDENT + 5, group.standing, _heading(group), _label(group)
        if group.advice:
            yield INDENT + 5, "", group.advice
    if more := shown[GROUPS_SHOWN:]:
        yield 0, "dim", f"and {len(more)} more groups, {sum(g.count for g in more)} nodes: --json has all"


def _label(group: Group) -> str:
    return f"{group.number:>3} {group.count:>5} {group.standing:<{INDENT - 5}} "


def _heading(group: Group) -> str:
    rails = f"rail {_numbers(group.rails)}: " if group.rails else ""
    return f"{rails}{'; '.join(group.causes) or group.summary}   {short(group.nodes)}"


def _numbers(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def short(nodes: str) -> str:
    """A hostlist of bounded length, cut at a comma outside brackets where there is one."""
    if len(nodes) <= LIST_SHOWN:
        return nodes
    return f"{nodes[: LIST_SHOWN - 3].rpartition(',')[0] or nodes[: LIST_SHOWN - 3]}..."


def _fixes(report: FleetReport) -> Iterator[Row]:
    if len(report.fixes) < 2:
        return
    yield 0, "", ""
    yield 0, "bold", "What to fix first"
    for fix in report.fixes[:FIXES_SHOWN]:
        yield 8, "", f"{fix.advice or 'see gdr doctor'}   {short(fix.nodes)}", f"{fix.frees:>6}"


def _values(values: tuple[TraitValue, ...]) -> str:
    first, *others = values
    shown = [f"{first.value} on {first.count}"]
    shown += [f"{one.value} on {short(one.nodes)}" for one in others[:VALUES_SHOWN]]
    more = f", and {len(others) - VALUES_SHOWN} more values" if len(others) > VALUES_SHOWN else ""
    return f"{', '.join(shown)}{more}"


def _drift(report: FleetReport) -> Iterator[Row]:
    """Each trait with its values: of the most common one the count, of the others the nodes."""
    several = len({drift.kind for drift in report.drift}) > 1
    for number, drift in enumerate(report.drift):
        if not number:
            yield 0, "", ""
        kind = f" ({drift.kind})" if several else ""
        yield 8, "", f"{drift.trait}{kind}: {_values(drift.values)}", "drift"


def _mismatches(report: FleetReport) -> Iterator[Row]:
    if not report.mismatches:
        return
    yield 0, "", ""
    yield 0, "bold", "Must be the same on all nodes of a job"
    for row in report.mismatches:
        yield 2, "", f"{row.trait}: {_values(row.values)}"
        yield 4, "dim", _shows_as(row.shows_as, row.versions)


def _odd(report: FleetReport) -> Iterator[Row]:
    if not report.odd:
        return
    yield 0, "", ""
    yield 0, "bold", "Odd ones out"
    alike: dict[tuple[Standing, tuple[Difference, ...]], list[OddNode]] = {}
    for node in report.odd:
        alike.setdefault((node.standing, node.differences), []).append(node)
    groups = list(alike.values())
    for nodes in groups[:ODD_SHOWN]:
        names = short(fold(node.node for node in nodes))
        yield 4, nodes[0].standing, "; ".join(_differences(nodes[0])), f"  {names}: "
    if more := sum(map(len, groups[ODD_SHOWN:])):
        yield 0, "dim", f"  and {more} more: --json has all"


def _differences(node: OddNode) -> Iterator[str]:
    for number, one in enumerate(node.differences[:DIFFERENCES_SHOWN]):
        others = f"its {one.of - one.same} peers have" if not number else "peers"
        shared = f" ({one.same} of {one.of})" if one.same > 1 else ""
        yield f"{one.trait} {one.value}{shared}, {others} {one.peers}"
    if (more := len(node.differences) - DIFFERENCES_SHOWN) > 0:
        yield f"and {more} more"


def _learned(report: FleetReport) -> Iterator[Row]:
    for kind in report.expected:
        yield 0, "", ""
        yield 0, "bold", f"What most of {kind.count} nodes with {kind.kind or 'no GPU'} have"
        for trait, value in kind.traits.items():
            yield 4, "", f"{trait}: {value}"


def _changes(report: FleetReport) -> Iterator[Row]:
    if not report.since:
        return
    yield 0, "", ""
    yield 0, "bold", f"Since {local(report.since)}"
    for change in report.changes:
        yield 8, change.kind, _change(change), f"{change.count:>6}"
    if not report.changes:
        yield 2, "", "nothing changed"


def _change(change: Change) -> str:
    match change.kind:
        case "new":
            return f"new, {change.after}   {short(change.nodes)}"
        case "gone":
            return f"gone, {change.before}   {short(change.nodes)}"
        case "version":
            return f"{change.before} -> {change.after}   {short(change.nodes)}"
        case _:
            return f"{change.kind}: {change.before} -> {change.after}   {short(change.nodes)}"


def local(moment: str) -> str:
    """A moment in UTC as local time, for people."""
    try:
        return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return moment


def group_text(report: FleetReport, group: Group, *, colour: bool, width: int | None) -> str:
    """One group with its nodes."""

    def lines() -> Iterator[Row]:
        yield (
            0,
            group.standing,
            f"Group {group.number}: {group.count} nodes {WORDS.get(group.standing, group.standing)}",
        )
        yield 2, "", group.nodes
        yield 2, "", f"why: {_heading(group).partition('   ')[0]}"
        yield 2, "", f"for example: {group.summary}"
        if group.advice:
            yield 2, "", f"what to do: {group.advice}"
        members = {row.name for row in report.nodes if (row.standing, row.causes, row.rails) == key}
        for row in report.odd:
            if row.node in members:
                yield 4, "", "; ".join(_differences(row)), f"  {row.node}: "

    key = (group.standing, group.causes, group.rails)
    return render(lines(), STYLES, colour=colour, width=width)


def comparison_text(one: NodeRow, other: NodeRow, *, colour: bool = False, width: int | None = None) -> str:
    """What differs between two nodes, first what a job on both needs to be the same."""

    def lines() -> Iterator[Row]:
        for row in (one, other):
            yield 4, row.standing, f"{row.standing}: {row.summary}", f"{row.name}: "
        if cables := cabling((one, other)):
            yield from cabling_text.lines(cables, (one, other))
        found = differing(one, other)
        matter = {trait: found.pop(trait) for trait in MUST_MATCH if all(found.get(trait, ("",)))}
        if not found and not matter:
            yield 2, "", "no difference in what is compared"
        if matter:
            yield 0, "", ""
            yield 0, "bold", "Must be the same for a job on both"
        for trait, values in matter.items():
            yield 4, "", _both(trait, values)
            yield 6, "dim", _shows_as(MUST_MATCH[trait].shows_as, MUST_MATCH[trait].versions)
        if found:
            yield 0, "", ""
            yield 0, "bold", "Also differs" if matter else "Differs"
        for trait, values in found.items():
            yield 4, "", _both(trait, values)

    return render(lines(), STYLES, colour=colour, width=width)


def _both(trait: str, values: tuple[str, str]) -> str:
    left, right = (value or "not known" for value in values)
    return f"{trait}: {left}; there {right}"


def _shows_as(words: str, versions: str) -> str:
    return f"shows as: {words}{f' (NCCL {versions})' if versions else ''}"
