"""Render a report for a terminal: three answers, layers, effect of each fix, notes, evidence."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from msgspec.structs import replace

from gdrkit.formats.regex import regex
from gdrkit.report.answers import answers, by_evidence, in_words, one_by_one
from gdrkit.report.boot_words import lost_at_boot
from gdrkit.report.causes import deciding
from gdrkit.report.document import ChainStep, ExpectationSection, PlanSection, ProcessInUse, Report
from gdrkit.report.glossary import GLOSSARY
from gdrkit.report.programs import about_shown, program_lines, shown_programs, with_gpu_slots
from gdrkit.report.rack_traffic import rack_line
from gdrkit.report.terminal import COMMAND, Row, render
from gdrkit.rules.capabilities import Path
from gdrkit.rules.rule import Layer
from gdrkit.verdict.findings import Finding

# -- explain a term of the glossary where a text uses it first --

_SHORT = {entry.name: entry.short for entry in GLOSSARY if entry.short}
_NAMES = "|".join(map(re.escape, sorted(_SHORT, key=len, reverse=True)))
_TERM = regex(rf"(?<![\w/.-])({_NAMES})(?![\w/=-]|\.\w| \(|: )")
"""A term on its own: not in a code such as peermem-stub, in a path, or before its explanation."""


TO_FIND_OUT = "; to find out, run: "
"""Before the command of a question; the glossary leaves what follows alone."""


_FILE = regex(r"(?<![\w/.-])(?:[\w.+@-]+/){2,}([\w.+@-]*\w)")


def explained(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows with a short parenthesis after the first use of each term, and the end alone of a path that
    stands again; but not in a `command`."""
    seen: set[str] = set()
    for row in rows:
        indent, style, words = row[:3]
        if style == COMMAND:
            yield row
            continue
        prose, asked, command = words.partition(TO_FIND_OUT)
        prose = "`".join(
            part if number % 2 else _explained(part, seen) for number, part in enumerate(prose.split("`"))
        )
        words = f"{prose}{asked}{command}"
        yield (indent, style, words, row[3]) if len(row) == 4 else (indent, style, words)


def _explained(words: str, seen: set[str]) -> str:
    def again(match: re.Match[str]) -> str:
        path, end = match[0], f"/{match[1]}"
        alike = [one for one in seen if one.endswith(end)]
        seen.add(path)
        return f"...{end}" if alike == [path] else path

    def first(match: re.Match[str]) -> str:
        name, before = match[1], words[: match.start()]
        if name in seen or before.count("(") > before.count(")"):
            return name  # no parenthesis within another
        seen.add(name)
        return f"{name} ({_SHORT[name]})"

    return _TERM.sub(first, _FILE.sub(again, words))


WORST_FIRST = ("failed", "unknown", "warning", "note")
UNKNOWNS_SHOWN = 3
"""If more pieces of evidence are missing, the first screen only has the commands that would find out."""

USERS_SHOWN = 3
HINT_LINES = 4
"""Of the last line, which is two on a narrow terminal, and two empty ones."""

STYLES = {
    "active": "bold green", "ready": "bold green", "blocked": "bold red", "impossible": "bold yellow",
    "unknown": "bold magenta", "failed": "red", "warning": "yellow", "note": "dim", "ok": "green",
}  # fmt: skip


def text(
    report: Report,
    *,
    verbose: bool = False,
    every: bool = False,
    colour: bool = False,
    width: int | None = None,
    target: str = "",
    picture: str = "",
    rows: int | None = None,
) -> str:
    """The report as lines of `width` columns, with ANSI colours if `colour`.

    It is about `every` program, or those that matter on the node: see `shown_programs`. `target` is the node
    as the user named it, for the commands that the text suggests. The `picture` of the node, lines that have
    the width, comes last; unless `verbose`, only if the whole text has fewer lines than `rows`."""

    def lines(words: Iterable[Row]) -> str:
        return render(words, STYLES, colour=colour, width=width)

    report = with_gpu_slots(about_shown(report, every=every))
    shown = lines(explained(_screen(report, verbose, every, target)))
    if verbose:
        return shown + lines(_evidence(report.findings)) + (f"\n{picture}" if picture else "")
    fits = rows is None or f"{shown}{picture}".count("\n") + HINT_LINES < rows
    drawn, more = (f"\n{picture}", "") if picture and fits else ("", " and a picture" if picture else "")
    hint = f"-v shows the evidence{more}; gdr codes WORD explains a code or a word"
    return shown + drawn + lines(((0, "", ""), (0, "dim", hint)))


def _screen(report: Report, verbose: bool, every: bool, target: str) -> Iterator[Row]:
    yield from answers(report, target)
    yield 0, "", ""
    node = report.node
    kernel = f"Linux {node.kernel}" if node.kernel else ""
    yield 0, "dim", " ".join(part for part in (node.hostname, kernel, f"({_source(report)})") if part)
    yield from _programs(report, every)
    yield from _layers(report, verbose)
    yield from _fixes(report)
    notes = [f for f in report.findings if f.status == "note"]
    if notes:
        yield 0, "", ""
        later = " now" if lost_at_boot(report) else ""
        yield 0, "", f"Notes, without effect on the answer{later}"
        for finding in _merged(notes):
            yield 2, "note", _finding(finding)


def _programs(report: Report, every: bool) -> Iterator[Row]:
    for state, names, words in program_lines(report, every=every):
        yield 2, state, f"{names}: {words}"
    yield from _rack(report, every)
    yield from _in_use(report.in_use)
    yield from _expectation(report.expectation)


def _rack(report: Report, every: bool) -> Iterator[Row]:
    """Why NVLink to other hosts is not used, on a node that has it."""
    if all(program.path != Path.NVLINK for program in shown_programs(report, every=every).values()):
        return
    over = (one for one in report.judgements.values() if one.path is Path.NVLINK and one.state == "blocked")
    for line in dict.fromkeys(rack_line(one.blocked_by[:1]) for one in over):
        yield 2, "warning", line


def _in_use(processes: tuple[ProcessInUse, ...]) -> Iterator[Row]:
    """The processes that use a direct path now; if there are many, some of them."""
    for process in processes[:USERS_SHOWN]:
        devices = f" on {', '.join(process.devices)}" if process.devices else ""
        job = f" ({process.job})" if process.job else ""
        name = f"process {process.pid} {process.name}{job}"
        yield 2, "active", f"in use by {name}{devices}: {process.because} ({process.confidence})"
    if len(processes) > USERS_SHOWN:
        yield 2, "active", f"and by {len(processes) - USERS_SHOWN} more: gdr ps"


def _expectation(section: ExpectationSection | None) -> Iterator[Row]:
    if section is None:
        return
    about = {
        "yes": ("ok", "this node is as expected"),
        "no": ("warning", f"this node is not as expected: {', '.join(section.differs)}"),
        "unknown": ("unknown", "not everything could be compared"),
    }
    style, words = about[section.met]
    yield 0, "", ""
    yield 0, style, f"{section.file}: {words}"


def _source(report: Report) -> str:
    scope = "in a container" if report.node.scope == "container" else report.node.scope
    return ", ".join(part for part in (report.node.source, scope) if part)


def _layers(report: Report, verbose: bool) -> Iterator[Row]:
    """The layers with a problem, hardware first, the cause marked; the others in one line."""
    yield 0, "", ""
    asked = deciding(report)
    needed = {finding.seen for finding in asked}
    below = {finding.expected for finding in asked} if report.verdict.state == "unknown" else set()
    if len(needed) > UNKNOWNS_SHOWN:
        needed = set()  # their commands follow below
    fine, later = [], 0
    for layer in Layer:
        here = [f for f in report.findings if f.layer == layer and f.status != "note"]
        unknown = [f for f in here if f.status == "unknown"]
        shown = unknown if verbose else [f for f in unknown if f.seen in needed]
        later += len(unknown) - len(shown)
        matter = [f for f in here if f not in unknown]
        if not matter and not shown:
            fine += [] if unknown else [str(layer)]
            continue
        worst = min((f.status for f in matter or shown), key=WORST_FIRST.index)
        lasts = worst == "failed" and all(f.permanent for f in matter if f.status == worst)
        word, style = ("permanent", "impossible") if lasts else (worst, worst)
        yield 0, style, f"{'>' if layer == report.verdict.first_broken_layer else ' '} {layer:<12} {word}"
        for finding in _merged(matter):
            yield 4, finding.status, _finding(finding)
        for line in _unknowns(shown, below):
            yield 4, "unknown", line
    if fine:
        yield 6, "ok", ", ".join(fine), "  ok:"
    if later:
        yield 0, "dim", f"  {later} check{'s' if later > 1 else ''} lacked evidence; -v lists them"


def _merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings that differ only in their subject, merged."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for f in findings:
        groups.setdefault((f.code, f.status, f.seen, f.expected), []).append(f)
    for group in groups.values():
        subjects = list(dict.fromkeys(f.subject for f in group))
        more = f" and {len(subjects) - 3} more" if len(subjects) > 4 else ""
        shown = subjects[: 3 if more else 4]
        yield replace(group[0], subject=", ".join(shown) + more)


def _unknowns(findings: Iterable[Finding], below: Container[str]) -> Iterator[str]:
    """Unknown findings, merged by the evidence that they need: one command answers all codes of a line.
    The commands that stand `below` are not repeated."""
    for (source, why, command), named in by_evidence(findings).items():
        more = f" and {len(named) - 3} more" if len(named) > 4 else ""
        shown = ", ".join(named[: 3 if more else 4])
        ask = "" if command in below else f"{TO_FIND_OUT}{command}"
        yield f"? {shown}{more}: {source} ({in_words(why)}){ask}"


def _finding(finding: Finding) -> str:
    subject = f" {finding.subject}" if finding.subject not in ("", "node") else ""
    sure = "" if finding.confidence == "certain" else f" ({finding.confidence})"
    expected = f"; expected {finding.expected}" if finding.expected else ""
    cost = f". {_sentence(finding.cost)}" if finding.cost else ""
    return f"{finding.code}{subject}: {finding.seen}{expected}{sure}{cost}"


def _sentence(words: str) -> str:
    """Words as a sentence. A name such as nvidia-peermem stays in lower case at its start."""
    first, _, _ = words.partition(" ")
    start = words[0].upper() if first.isalpha() else words[0]
    return f"{start}{words[1:].rstrip('.')}."


def _fixes(report: Report) -> Iterator[Row]:
    if report.verdict.state == "unknown":
        yield from _commands(report)
    if report.plan:
        for number, plan in enumerate(report.plan):
            yield 0, "", ""
            yield 0, "bold", "What to do" if number == 0 else "Or"
            yield from _plan(plan)
    elif report.verdict.state == "impossible":
        yield 0, "", ""
        yield 0, "bold", "No commands: no step of gdr fix opens a direct path here"
    elif report.what_then and report.verdict.state == "blocked":
        yield 0, "", ""
        yield 0, "bold", "Where each fix would lead"
        for chain in report.what_then:
            yield 2, "", " -> ".join(_step(step) for step in chain)


def _commands(report: Report) -> Iterator[Row]:
    """The commands that would collect the evidence that the unknown paths need."""
    if found := deciding(report):
        yield 0, "", ""
        only = len(found) == 1 or one_by_one(found)
        yield 0, "bold", "To find out, run" if only else "Or find out one by one"
        for finding in found:
            yield 2, COMMAND, finding.expected


def _plan(plan: PlanSection) -> Iterator[Row]:
    for number, step in enumerate(plan.steps, 1):
        reboot = ", needs a reboot" if step.needs_reboot else ""
        yield 5, "", f"{step.remedy}: {step.effect}{reboot}", f"  {number}. "
        blocked = f" by {', '.join(step.then.blocked_by)}" if step.then.blocked_by else ""
        yield 5, "dim", f"then {step.then.state}{blocked}. Risk: {step.risk}. Undo: {step.undo}"


def _step(step: ChainStep) -> str:
    modprobe = ""
    if step.modprobe is not None:
        error = step.modprobe.stderr.rpartition(": ")[2].strip()
        loads = "loads" if step.modprobe.loaded else "may load"
        modprobe = f"modprobe: {error}; " if error else f"nvidia-peermem {loads}; "
    blocked = f": {', '.join(step.then.blocked_by)}" if step.then.blocked_by else ""
    return f"{step.remedy} ({modprobe}{step.then.state}{blocked})"


def _evidence(findings: Iterable[Finding]) -> Iterator[Row]:
    yield 0, "", ""
    yield 0, "bold", "Evidence"
    for finding in findings:
        yield 2, finding.status, f"{finding.code} {finding.subject} [{finding.confidence}]"
        for source in finding.evidence:
            locator = f" {source.locator}" if source.locator else ""
            quote = f": {source.text}" if source.text else ""
            yield 6, "dim", f"{source.source}{locator}{quote}"
        for reference in finding.references:
            yield 6, "dim", f"see {reference}"
