"""Render all of the report on a fleet: what changed, groups, what to fix first, drift, odd nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from gdrkit.catalogue import CODES
from gdrkit.fleet import cabling_text
from gdrkit.fleet.cabling import cabling
from gdrkit.fleet.document import (
    Change,
    Drift,
    FleetReport,
    Group,
    NodeRow,
    OddNode,
    Standing,
    TraitMismatch,
    TraitValue,
)
from gdrkit.fleet.headline import WORDS, headline, interrupted, repeated
from gdrkit.fleet.hostlist import expand, fold
from gdrkit.fleet.judge import answers_by_another_name
from gdrkit.fleet.peers import differing, odd_alike
from gdrkit.fleet.traits import MUST_MATCH
from gdrkit.formats.plural import plural
from gdrkit.report.pages import code_page
from gdrkit.report.terminal import Row, render

STYLES = {
    "ready": "bold green", "next-boot": "bold yellow", "warnings": "yellow", "blocked": "bold red",
    "unknown": "bold magenta",
    "unreachable": "red", "unreadable": "red", "impossible": "yellow", "worse": "bold red",
    "better": "green",
}  # fmt: skip
INDENT = 23
"""Columns of the number, the count and the standing of a group."""
BELOW = 10
"""Columns before what a group means and what to do: where its standing begins."""
GROUPS_SHOWN, FIXES_SHOWN, ODD_SHOWN, DIFFERENCES_SHOWN, VALUES_SHOWN = 20, 5, 10, 4, 3
TRAITS_SHOWN = 12
"""Lines of drift, and of what must be the same: a fleet of many kinds of nodes has some for each kind."""
RENAMED_SHOWN = 10
NAME_SHOWN = 24
"""Columns for the name of a node before its value."""
LIST_SHOWN = 60
"""Characters of a hostlist in a line; --group and --nodes-only show it whole."""


def text(report: FleetReport, *, colour: bool = False, width: int | None = None, run: str = "last") -> str:
    """The report as lines of `width` columns; `run` is what `--run` takes to show it again."""
    return render(_lines(report, run), STYLES, colour=colour, width=width)


def _lines(report: FleetReport, run: str) -> Iterator[Row]:
    yield 0, "bold", headline(report)
    if not report.complete:
        yield 0, "unknown", interrupted(report)
    for words in repeated(report)[:RENAMED_SHOWN]:
        yield 0, "warnings", words
    yield from changes_rows(report)
    yield from _groups(report)
    yield from _renamed(report)
    yield from _fixes(report)
    yield from _drift(report)
    yield from _mismatches(report)
    if report.cabling:
        yield from cabling_text.lines(report.cabling, report.nodes)
    yield from _odd(report)
    yield from _learned(report)
    yield 0, "", ""
    yield (
        0,
        "dim",
        f"`gdr fleet doctor --run {run} --group N` lists a group, `--compare A B` what differs",
    )


def _groups(report: FleetReport) -> Iterator[Row]:
    shown = [group for group in report.groups if group.standing is not Standing.READY]
    if shown:
        yield 0, "", ""
    advised: dict[str, int] = {}
    for group in shown[:GROUPS_SHOWN]:
        yield INDENT, group.standing, _heading(group), group_label(group)
        if meaning := _meaning(group):
            yield BELOW, "", meaning
        first = advised.setdefault(group.advice, group.number)
        if group.advice:
            again = first != group.number and len(group.advice) > LIST_SHOWN
            yield BELOW, "", f"as group {first}" if again else group.advice
    if more := shown[GROUPS_SHOWN:]:
        nodes = plural(sum(group.count for group in more), "node")
        yield 0, "dim", f"and {plural(len(more), 'more group')}, {nodes}: --json has all"


def _renamed(report: FleetReport) -> Iterator[Row]:
    """Nodes that answered for a name that is not theirs: a wrong address, an alias, or a node that lies."""
    rows = list(filter(answers_by_another_name, report.nodes))
    if not rows:
        return
    yield 0, "", ""
    yield 0, "bold", f"Answered by another name: {plural(len(rows), 'node')}"
    for row in rows[:RENAMED_SHOWN]:
        yield 4, "", f"{row.name} calls itself {row.calls_itself}"
    if len(rows) > RENAMED_SHOWN:
        yield 4, "dim", f"and {len(rows) - RENAMED_SHOWN} more: --json has all"


def _meaning(group: Group) -> str:
    """The first sentence of the page of a group's first code; "" where its cause is in words already."""
    return code_page(group.causes[0])[0] if group.causes and group.causes[0] in CODES else ""


def group_label(group: Group) -> str:
    """The number, the count and the standing of a group, in columns."""
    return f"{group.number:>3} {group.count:>5} {group.standing:<{INDENT - 11}} "


def _heading(group: Group) -> str:
    rails = f"rail {numbers(group.rails)}: " if group.rails else ""
    return f"{rails}{'; '.join(group.causes) or group.summary}   {short(group.nodes)}"


def numbers(rails: tuple[int, ...]) -> str:
    """Rails as a list."""
    return ", ".join(map(str, rails))


def short(nodes: str, most: int = LIST_SHOWN) -> str:
    """A hostlist of at most so many characters, cut at a comma where there is one."""
    if len(nodes) <= most:
        return nodes
    return f"{nodes[: most - 3].rpartition(',')[0] or nodes[: most - 3]}..."


def _fixes(report: FleetReport) -> Iterator[Row]:
    """What a group says already is not said again."""
    if len(report.fixes) < 2:
        return
    shown = [group for group in report.groups if group.standing is not Standing.READY][:GROUPS_SHOWN]
    yield 0, "", ""
    yield 0, "bold", "What to fix first"
    for fix in report.fixes[:FIXES_SHOWN]:
        says = [str(group.number) for group in shown if group.advice == fix.advice]
        words = fix.advice or "see gdr doctor"
        if says and len(words) > LIST_SHOWN and (fix.by_hand or not fix.remedies):
            words = f"see group{'s' if len(says) > 1 else ''} {', '.join(says)}"
        yield 8, "", f"{words}   {short(fix.nodes)}", f"{fix.frees:>6}"
    if more := report.fixes[FIXES_SHOWN:]:
        yield (
            8,
            "dim",
            f"and {len(more)} more, for {plural(sum(fix.frees for fix in more), 'node')}: --json has all",
        )


def _values(values: tuple[TraitValue, ...]) -> str:
    """Each value with its nodes; of the most common one, the count."""
    first, *others = values
    shown = [f"{first.value} on {first.count if first.count > 1 else first.nodes}"]
    shown += [f"{one.value} on {short(one.nodes)}" for one in others[:VALUES_SHOWN]]
    if len(others) > VALUES_SHOWN:
        shown.append(f"and {plural(len(others) - VALUES_SHOWN, 'more value')}")
    return "; ".join(shown)


Shared = TypeVar("Shared", Drift, TraitMismatch)


def _cut(rows: Sequence[Shared]) -> tuple[Sequence[Shared], int]:
    """So many rows as are shown, those about the most nodes, and how many are not."""
    if len(rows) <= TRAITS_SHOWN:
        return rows, 0
    largest = sorted(rows, key=lambda row: -sum(value.count for value in row.values))
    return largest[:TRAITS_SHOWN], len(rows) - TRAITS_SHOWN


def _trait(row: Drift | TraitMismatch, rows: Iterable[Drift | TraitMismatch], label: str) -> tuple[str, str]:
    """The values of a trait, and its name behind a label, with the kind of nodes if there are several."""
    several = len({one.kind for one in rows}) > 1
    return _values(row.values), f"{label}{row.trait}{f' ({row.kind})' if several and row.kind else ''}: "


def _drift(report: FleetReport) -> Iterator[Row]:
    shown, more = _cut(report.drift)
    for number, drift in enumerate(shown):
        if not number:
            yield 0, "", ""
        yield 10, "", *_trait(drift, report.drift, "drift   ")
    if more:
        yield 8, "dim", f"and {more} more: --json has all"


def _mismatches(report: FleetReport) -> Iterator[Row]:
    """What shows in the same way stands together."""
    if not report.mismatches:
        return
    yield 0, "", ""
    yield 0, "bold", "Must be the same on all nodes of a job"
    shown, more = _cut(report.mismatches)
    alike: dict[str, list[TraitMismatch]] = {}
    for row in shown:
        alike.setdefault(_shows_as(row.shows_as, row.versions), []).append(row)
    for words, rows in alike.items():
        for row in rows:
            yield 6, "", *_trait(row, report.mismatches, "  ")
        yield 4, "dim", words
    if more:
        yield 2, "dim", f"and {more} more: --json has all"


def _odd(report: FleetReport) -> Iterator[Row]:
    if not report.odd:
        return
    count = plural(len(report.odd), "node")
    yield 0, "", ""
    yield 0, "bold", f"Not as most of their kind: {count}" if report.expected else f"Odd ones out: {count}"
    yield from _alike(report.odd, ODD_SHOWN)


def _alike(odd: Iterable[OddNode], most: int) -> Iterator[Row]:
    """Nodes with what they have and few others; those that are odd in the same way together."""
    groups = odd_alike(odd)
    for nodes in groups[:most]:
        yield 2, nodes[0].standing, short(fold(node.node for node in nodes))
        yield from _differences(nodes[0])
    if more := sum(map(len, groups[most:])):
        yield 0, "dim", f"  and {plural(more, 'more node')}: --json has all"


def _differences(node: OddNode) -> Iterator[Row]:
    for one in node.differences[:DIFFERENCES_SHOWN]:
        shared = f" on {one.same}" if one.same > 1 else ""
        words = f"{one.value}{shared}; {one.usual} of {one.of} have {one.peers}"
        yield 8, "", words, f"    {one.trait}: "
    if (more := len(node.differences) - DIFFERENCES_SHOWN) > 0:
        yield 4, "", f"and {plural(more, 'more difference')}"


def _learned(report: FleetReport) -> Iterator[Row]:
    for kind in report.expected:
        yield 0, "", ""
        yield 0, "bold", f"What most of {plural(kind.count, 'node')} with {kind.kind or 'no GPU'} have"
        for trait, value in kind.traits.items():
            yield 4, "", f"{trait}: {value}"


def changes_rows(report: FleetReport) -> Iterator[Row]:
    """What changed since another run, if there was one."""
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
        count = f"{plural(group.count, 'node')} {WORDS.get(group.standing, group.standing)}"
        yield 0, group.standing, f"Group {group.number}: {count}"
        yield 2, "", group.nodes
        if group.causes:
            yield 2, "", f"why: {_heading(group).partition('   ')[0]}"
        if meaning := _meaning(group):
            yield 2, "", meaning
        yield 2, "", f"for example: {group.summary}"
        if group.advice:
            yield 2, "", f"what to do: {group.advice}"
        members = set(expand(group.nodes))
        if odd := [row for row in report.odd if row.node in members]:
            yield 2, "bold", f"of them, not as most of their kind: {plural(len(odd), 'node')}"
            yield from _alike(odd, len(odd))

    return render(lines(), STYLES, colour=colour, width=width)


def comparison_text(one: NodeRow, other: NodeRow, *, colour: bool = False, width: int | None = None) -> str:
    """What differs between two nodes, first what a job on both needs to be the same."""

    def lines() -> Iterator[Row]:
        found = differing(one, other)
        matter = {trait: found.pop(trait) for trait in MUST_MATCH if all(found.get(trait, ("",)))}
        yield 0, "bold", _how_many(len(matter), found)
        for row in (one, other):
            yield 4, row.standing, f"{row.standing}: {row.summary}", f"{row.name}: "
        if cables := cabling((one, other)):  # a port that is down explains differences below
            yield from cabling_text.lines(cables, (one, other))
        if matter:
            yield 0, "", ""
            yield 0, "bold", "Must be the same for a job on both"
        for trait, values in matter.items():
            yield from _both(trait, values)
            yield 4, "dim", _shows_as(MUST_MATCH[trait].shows_as, MUST_MATCH[trait].versions)
        if found:
            yield 0, "", ""
            yield 0, "bold", "Also differs" if matter else "Differs"
        for trait, values in found.items():
            yield from _both(trait, values)

    def _both(trait: str, values: tuple[str, str]) -> Iterator[Row]:
        yield 2, "", trait
        for row, value in zip((one, other), values, strict=True):
            yield indent, "", value or "not known", f"    {row.name}"

    indent = 6 + min(NAME_SHOWN, max(len(one.name), len(other.name)))
    return render(lines(), STYLES, colour=colour, width=width)


def _how_many(matter: int, others: Mapping[str, tuple[str, str]]) -> str:
    """How many traits differ; one that is not known of a node does not count."""
    unknown = sum(not all(values) for values in others.values())
    rest = len(others) - unknown
    words = f"{plural(matter, 'difference')} in what must be the same for a job on both, {rest} in the rest"
    if not matter and not rest:
        words = "No difference in what is compared"
    return words + (f"; {plural(unknown, 'trait')} not known of one node" if unknown else "")


def _shows_as(words: str, versions: str) -> str:
    return f"shows as: {words}{f' (NCCL {versions})' if versions else ''}"
