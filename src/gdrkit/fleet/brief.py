"""Render a fleet for one look: how many nodes need something, why, what to do first, who is odd.

It has at most LINES lines at any width, so that it fits a terminal and the head of a mail; `text.py` has the
rest.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdrkit.agent.streams import visible
from gdrkit.fleet import cabling_text
from gdrkit.fleet.document import WELL, Drift, FleetReport, NodeRow, OddNode, Standing, TraitMismatch
from gdrkit.fleet.groups import by_advice, numbers_of, plan_in_words, target_of
from gdrkit.fleet.headline import headline, interrupted, repeated
from gdrkit.fleet.hostlist import expand, fold
from gdrkit.fleet.judge import answers_by_another_name
from gdrkit.fleet.peers import odd_alike
from gdrkit.fleet.text import (
    INDENT,
    STYLES,
    changes_rows,
    group_label,
    numbers,
    short,
)
from gdrkit.formats.plural import plural
from gdrkit.formats.regex import regex
from gdrkit.report.terminal import COMMAND, WIDTH, Row, render, wrapped

LINES = 25
"""A terminal of 80 columns has 24 or 25: VT100 User Guide, and the PC's text mode."""
GROUPS_SHOWN, STEPS_SHOWN, ODD_SHOWN, RENAMED_SHOWN = 5, 3, 3, 1
CABLING_SHOWN = 9
CHANGES_SHOWN = 20
HOSTS_SHOWN = 32
"""Columns that a list of nodes keeps beside a long cause."""
_COMMAND = regex(
    r"`(sudo [^`\n<]{2,200}|gdr (?:doctor --probe|fix --steps |modprobe |probe )[^`\n<]{0,200})`"
)
"""A command that changes something, or one of gdr that finds the reason first; others in an advice only ask,
as `modinfo -F license nvidia`."""


class Step(NamedTuple):
    """Something to do."""

    helps: int  # nodes
    nodes: str  # hostlist
    words: str
    command: str
    before_boot: bool = False  # it keeps what works now


def brief(report: FleetReport, *, colour: bool = False, width: int | None = None, run: str = "last") -> str:
    """The report in at most LINES lines of `width` columns; `run` is what `--run` takes to show it again.

    If it was compared with another run, only what changed is shown. A command to copy is one line however
    long it is."""
    room = width or WIDTH
    more = f"gdr fleet doctor --run {shlex.quote(run)}"
    sections = _since(report, room) if report.since else _now(report, room, more)
    shown = [render(rows, STYLES, colour=colour, width=room) for rows in sections]
    hint = f"`{more} -v` has all, `--group N` one, `--compare A B` two"
    shown.append(render([(0, "dim", _cut(hint, room))], STYLES, colour=colour, width=room))
    shown = [section for section in shown if section]
    spare = LINES - sum(section.count("\n") for section in shown)
    return ("\n" if spare >= len(shown) - 1 else "").join(shown)


def _now(report: FleetReport, room: int, run: str) -> Iterator[list[Row]]:
    yield list(_head(report, room))
    yield list(_groups(report, room))
    yield list(_steps(report, room, run))
    if report.cabling:
        rows = list(cabling_text.lines(report.cabling, report.nodes))[1:]
        yield [_one_line(row, room) for row in rows[:CABLING_SHOWN]]
    yield list(_odd(report, room))
    yield list(_also(report, room))


def _since(report: FleetReport, room: int) -> Iterator[list[Row]]:
    yield list(_head(report, room))
    rows = list(changes_rows(report))[1:]
    shown = [_one_line(row, room) for row in rows[:CHANGES_SHOWN]]
    if more := len(rows) - len(shown):
        shown.append((8, "dim", f"and {more} more"))
    yield shown


def _head(report: FleetReport, room: int) -> Iterator[Row]:
    yield 0, "bold", _cut(headline(report, room), room)
    if not report.complete:
        yield 0, "unknown", _cut(interrupted(report), room)
    shared = repeated(report)
    if shared:
        more = f" (and {plural(len(shared) - 1, 'more name')})" if shared[1:] else ""
        yield 0, "warnings", f"{_cut(shared[0], room - len(more))}{more}"


def _cut(words: str, room: int) -> str:
    """Words that fit into a line: what does not is `...`."""
    first, *rest = wrapped(visible(words), room)
    return f"{next(iter(wrapped(first, room - 4)))} ..." if rest else first


def _one_line(row: Row, room: int) -> Row:
    """A row that is no longer than a line."""
    indent, style, words = row[:3]
    label = row[3] if len(row) == 4 else ""
    if len(label) > indent:
        indent, label, words = 0, "", f"{label}{words}"
    return indent, style, _cut(words, room - indent), label


# -- why, and what to do --------------------------------------------------------------------------------


def _groups(report: FleetReport, room: int) -> Iterator[Row]:
    """The groups in need, one in a line: its number, its nodes, why."""
    shown = [group for group in report.groups if group.standing not in WELL]
    for group in shown[:GROUPS_SHOWN]:
        rails = f"rail {numbers(group.rails)}: " if group.rails else ""
        cause = f"{rails}{'; '.join(group.causes) or group.summary}"
        yield INDENT, group.standing, _beside(cause, group.nodes, room - INDENT), group_label(group)
    if more := shown[GROUPS_SHOWN:]:
        nodes = plural(sum(group.count for group in more), "node")
        yield 6, "dim", f"and {plural(len(more), 'more group')}, {nodes}"


def _beside(words: str, nodes: str, room: int) -> str:
    """Words and a list of nodes in one line; both are cut if they are too long."""
    words = visible(words)
    hosts = short(nodes, max(min(HOSTS_SHOWN, room // 2), room - len(words) - 3))
    return f"{_cut(words, room - len(hosts) - 3)}   {hosts}"


def _steps(report: FleetReport, room: int, run: str) -> Iterator[Row]:
    """What frees the most nodes, with the command to type."""
    for number, step in enumerate(_first_steps(list(_advised(report, run)))):
        if not number:
            yield 0, "bold", "Do this first"
        yield 8, "", _beside(step.words, step.nodes, room - 8), f"{step.helps:>6}"
        yield 8, COMMAND, step.command


def _first_steps(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps that are shown. One of them is about the next boot, if any is: it alone takes away what
    works, and it does not wait until all else is repaired."""
    shown = steps[:STEPS_SHOWN]
    before_boot = [step for step in steps if step.before_boot]
    if not before_boot or any(step.before_boot for step in shown):
        return shown
    return (*shown[:-1], before_boot[0])


def _advised(report: FleetReport, run: str) -> Iterator[Step]:
    """Each thing to do, the most urgent first."""
    members: dict[int, list[NodeRow]] = {}
    numbers = numbers_of(report.groups)
    for row in report.nodes:
        members.setdefault(numbers[row.name], []).append(row)
    for fix in report.fixes:
        rows = _of(report, fix.nodes)
        if fix.remedies and not fix.by_hand:
            yield Step(fix.frees, fix.nodes, plan_in_words(fix), f"gdr fix {target_of(rows[0])}")
        else:
            shows = f"{run} --group {numbers[rows[0].name]}"
            yield Step(fix.frees, fix.nodes, *_as_command(fix.advice, rows, shows))
    for advice, groups in by_advice(report.groups).items():
        rows = [row for group in groups for row in members[group.number]]
        shows = f"{run} --group {groups[0].number}"
        nodes = groups[0].nodes if len(groups) == 1 else fold(row.name for row in rows)
        before_boot = groups[0].standing is Standing.NEXT_BOOT
        yield Step(len(rows), nodes, *_as_command(advice, rows, shows), before_boot)


def _of(report: FleetReport, nodes: str) -> list[NodeRow]:
    """The rows of a list of nodes of this report."""
    names = set(expand(nodes))
    return [row for row in report.nodes if row.name in names]


def _as_command(advice: str, rows: Sequence[NodeRow], shows: str) -> tuple[str, str]:
    """Advice as words and the command in it; a plan of gdr fix as the command that shows it, and where no
    command is named, the one that shows the group with all of the advice."""
    if advice.startswith("gdr fix: "):
        return advice.removeprefix("gdr fix: "), f"gdr fix {target_of(rows[0])}"
    found = _COMMAND.search(advice)
    words = advice.replace(f" {target_of(rows[0])}`", "`")  # a line has no room for it
    return words or "what the page of its first node says", found[1] if found else shows


# -- who is odd, and what else --------------------------------------------------------------------------


def _odd(report: FleetReport, room: int) -> Iterator[Row]:
    """Odd nodes with what tells them apart, the oddest first; those of the groups above come last."""
    if not report.odd:
        return
    above = {row.name for row in report.nodes if row.standing not in WELL}
    alike = sorted(odd_alike(report.odd), key=lambda nodes: nodes[0].node in above)
    title = "Not as most of their kind" if report.expected else "Odd ones out"
    yield 0, "bold", f"{title}: {plural(len(report.odd), 'node')}"
    for nodes in alike[:ODD_SHOWN]:
        yield 2, "", _cut(f"{short(fold(node.node for node in nodes))}   {_apart(nodes[0])}", room - 2)
    if more := sum(map(len, alike[ODD_SHOWN:])):
        yield 2, "dim", f"and {plural(more, 'more node')}"


def _apart(node: OddNode) -> str:
    """The rarest difference of a node, and how many more it has."""
    one, *others = node.differences
    more = f" (and {len(others)} more)" if others else ""
    return f"{one.trait}: {one.value}; {one.usual} of {one.of} have {one.peers}{more}"


def _also(report: FleetReport, room: int) -> Iterator[Row]:
    """What is not about one group: other names, what a job needs to be the same, versions."""
    renamed = list(filter(answers_by_another_name, report.nodes))
    if renamed:
        yield 0, "bold", f"Answered by another name: {plural(len(renamed), 'node')}"
        for row in renamed[:RENAMED_SHOWN]:
            yield 4, "", _cut(f"{row.name} calls itself {row.calls_itself}", room - 4)
    for title, rows in (
        ("Not the same on all nodes of a job", report.mismatches),
        ("Versions that differ", report.drift),
    ):
        if rows:
            whole, names = (
                f"{title}: {'; '.join(dict.fromkeys(_rare(row, is_whole) for row in rows))}"
                for is_whole in (True, False)
            )
            yield 0, "", _cut(whole if len(visible(whole)) <= room else names, room)


def _rare(row: Drift | TraitMismatch, is_whole: bool) -> str:
    """A trait, with the second of its values, where there is room, and who has it."""
    other = row.values[1:2]
    values = (f" {value.value}" if is_whole else "" for value in other)
    hosts = (f" on {short(value.nodes)}" for value in other)
    return "".join([row.trait, *values, *hosts])
