"""The report on two nodes, or on one before and after: what differs, and what that does to the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from gdrkit.fabric.picture import Picture
from gdrkit.fabric.picture_svg import RULES, scoped
from gdrkit.fleet import cabling_text
from gdrkit.fleet.cabling import cabling
from gdrkit.fleet.document import NodeRow
from gdrkit.fleet.peers import differing
from gdrkit.fleet.traits import MUST_MATCH
from gdrkit.formats.gpu_slot import gpu_slot
from gdrkit.html import page
from gdrkit.html.figure import figure, next_step
from gdrkit.html.node_sections import STATE_GLYPHS
from gdrkit.html.page import command, file, glyph, rich, safe, section, table
from gdrkit.report.answers import NOTHING, FirstScreen, first_screen
from gdrkit.report.document import GpuSection, Report
from gdrkit.report.programs import about_shown, with_gpu_slots
from gdrkit.verdict.findings import Finding


@dataclass(frozen=True)
class Side:
    """One of the two: its report, its traits, its picture or why it has none, and how the page calls it."""

    name: str
    source: str
    report: Report
    row: NodeRow
    drawn: Picture | None
    why_no_picture: str
    target: str  # for the commands that the page suggests


def comparison_page(one: Side, other: Side, made: str) -> str:
    """The page, as one HTML document."""
    return page.report(
        title=f"{one.name} and {other.name}",
        crumb=f"<b>{safe(one.name)}</b> and <b>{safe(other.name)}</b>",
        main="".join(part(one, other) for part in _parts(one, other)),
        origin=(
            (safe(one.name), safe(one.source)),
            (safe(other.name), safe(other.source)),
            ("Report made", safe(made)),
            page.by("gdr report"),
        ),
        style=file("node.css") + file("comparison.css") + scoped(RULES, ".pic"),
        script="",
        data={},
    )


def _parts(one: Side, other: Side) -> Iterator[Callable[[Side, Side], str]]:
    """The sections: what must be the same for a job on both and is not comes before what is about each."""
    differs_first = bool(_must_match(one, other))
    yield _first
    if differs_first:
        yield _traits
    yield from (_between, _states, _findings)
    if not differs_first:
        yield _traits


def _must_match(one: Side, other: Side) -> list[str]:
    """The traits that differ and must be the same for a job on both; one that is not known does not
    count."""
    found = differing(one.row, other.row)
    return [trait for trait in MUST_MATCH if all(found.get(trait, ("",)))]


def named(one: Side, other: Side) -> tuple[Side, Side]:
    """The two, by host name where the names differ, else by what was read."""
    names = [side.report.node.hostname or side.source for side in (one, other)]
    if names[0] == names[1]:
        names = [one.source, other.source] if one.source != other.source else ["first", "second"]
    return replace(one, name=names[0]), replace(other, name=names[1])


def _first(one: Side, other: Side) -> str:
    states = [side.report.verdict.state.value for side in (one, other)]
    screens = [_screen(side) for side in (one, other)]
    traits = ", ".join(_must_match(one, other))
    differs = f"ifferent on both, and must be the same for a job: {traits}." if traits else ""
    if states[0] != states[1]:
        words = f"{one.name} is {states[0]}, {other.name} is {states[1]}."
    elif screens[0].title == screens[1].title and screens[0].title.endswith(NOTHING):
        words = f"D{differs}" if differs else screens[0].title
    else:
        words = f"Both are {states[0]}{f', but d{differs}' if differs else '.'}"
    both = "".join(
        _side(side, key, is_said=words == screens[0].title) for side, key in ((one, "-1"), (other, "-2"))
    )
    return f'<div class="verdict" id="verdict"><h1>{rich(words)}</h1></div><div class="both">{both}</div>'


def _side(side: Side, key: str, *, is_said: bool) -> str:
    """The answers of one node: its title unless that `is_said` above, why not, what now; and its picture."""
    report = side.report
    screen = _screen(side)
    why = "".join(f"<p><b>{safe(label)}</b> {rich(words)}</p>" for label, words in screen.reasons)
    return (
        f'<div class="entry"><h3>{glyph(STATE_GLYPHS[report.verdict.state])} {safe(side.name)}: '
        f"{safe(report.verdict.state.value)}</h3>{'' if is_said else f'<p>{rich(screen.title)}</p>'}{why}"
        f"{next_step(report, side.target)}{figure(side.drawn, side.why_no_picture, key=key)}</div>"
    )


def _screen(side: Side) -> FirstScreen:
    return first_screen(with_gpu_slots(about_shown(side.report)), side.target)


def _between(one: Side, other: Side) -> str:
    """How two machines with an integrated GPU are connected, and what to set on both: as in gdr doctor."""
    rows = (one.row, other.row)
    cables = cabling(rows)
    if cables is None:
        return ""
    parts = []
    for indent, style, words, *label in cabling_text.lines(cables, rows):
        name = f"<b>{safe(label[0].strip())}</b> " if label and label[0].strip() else ""
        if indent == cabling_text.SETTING and "='" in words:
            parts.append(command(f"export {words}"))
        elif words:
            tag = "h3" if style == "bold" else "p"
            of = ' class="of"' if indent > cabling_text.SETTING and not label else ""
            parts.append(f"<{tag}{of}>{name}{rich(words)}</{tag}>")
    about = "Each cable with both its ends, and what a job on both needs."
    return section("between", "Between the two nodes", about, f'<div class="entry">{"".join(parts)}</div>')


def _states(one: Side, other: Side) -> str:
    """The programs and GPUs whose state is not the same."""
    rows = [
        (safe(name), *(_state(side.report.consumers[name].state.value) for side in (one, other)))
        for name in one.report.consumers
        if name in other.report.consumers
        and one.report.consumers[name].state != other.report.consumers[name].state
    ]
    gpus = [
        {gpu_slot(index, gpu.gpu): gpu for index, gpu in enumerate(side.report.gpus)}
        for side in (one, other)
    ]
    for slot in dict.fromkeys((*gpus[0], *gpus[1])):
        found = [side.get(slot) for side in gpus]
        told = ["no such GPU" if gpu is None else _gpu(gpu) for gpu in found]
        if told[0] != told[1]:
            rows.append((safe(slot), *told))
    about = "Programs and GPUs whose state is not the same."
    content = (
        table(("", one.name, other.name), rows)
        if rows
        else "<p>Every program and GPU has the same state.</p>"
    )
    return section("states", "What that does to the verdict", about, content)


def _state(state: str) -> str:
    return f"{glyph(STATE_GLYPHS[state])} {safe(state)}"


def _gpu(gpu: GpuSection) -> str:
    codes = ", ".join(f"<code>{safe(code)}</code>" for code in gpu.blocked_by)
    return f"{_state(gpu.state.value)} {codes}"


def _findings(one: Side, other: Side) -> str:
    """Findings of one side alone, or with another status there."""
    left, right = ({(f.code, f.subject): f for f in side.report.findings} for side in (one, other))
    rows = [
        (f"<code>{safe(code)}</code> {safe(subject)}", _found(left.get(key)), _found(right.get(key)))
        for key in dict.fromkeys((*left, *right))
        for code, subject in [key]
        if _status(left.get(key)) != _status(right.get(key))
    ]
    about = "Findings that only one of the two has, or that matter differently there."
    content = (
        table(("finding", one.name, other.name), rows) if rows else "<p>Both have the same findings.</p>"
    )
    return section("findings", "Findings", about, content)


def _status(finding: Finding | None) -> str:
    return finding.status if finding else ""


def _found(finding: Finding | None) -> str:
    if finding is None:
        return "not found"
    return f"{glyph(STATE_GLYPHS[finding.status])} {safe(finding.status)}: {rich(finding.seen)}"


def _traits(one: Side, other: Side) -> str:
    """What differs in what is compared; first what must be the same for a job on both."""
    found, first = differing(one.row, other.row), _must_match(one, other)
    rows = _rows((trait, found[trait]) for trait in (*first, *(t for t in found if t not in first)))
    about = (
        "Versions, links and settings that are compared. What a side does not show is unknown, never equal."
    )
    content = (
        table(("what", one.name, other.name), rows) if found else "<p>No difference in what is compared.</p>"
    )
    return section("differences", "What differs", about, content)


def _rows(found: Iterable[tuple[str, tuple[str, str]]]) -> Iterator[tuple[str, ...]]:
    for trait, (here, there) in found:
        must = MUST_MATCH.get(trait)
        shows = (
            f"<br><small>must be the same for a job on both; shows as: {rich(must.shows_as)}</small>"
            if must and here and there
            else ""
        )
        yield (
            safe(trait) + shows,
            *(f"<code>{safe(value)}</code>" if value else "not known" for value in (here, there)),
        )
