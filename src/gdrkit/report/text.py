"""Render a report for a terminal: verdict, layers, effect of each fix, evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.report.document import ChainStep, ExpectationSection, PlanSection, Report
from gdrkit.report.terminal import Row, render
from gdrkit.rules.rule import Layer
from gdrkit.verdict.findings import Finding

WORST_FIRST = ("failed", "unknown", "warning", "note")
STYLES = {
    "active": "bold green", "ready": "bold green", "blocked": "bold red", "impossible": "bold yellow",
    "unknown": "bold magenta", "failed": "red", "warning": "yellow", "note": "dim", "ok": "green",
}  # fmt: skip


def text(report: Report, *, verbose: bool = False, colour: bool = False, width: int | None = None) -> str:
    """The report as lines of `width` columns, with ANSI colours if `colour`."""
    return render(_lines(report, verbose), STYLES, colour=colour, width=width)


def _lines(report: Report, verbose: bool) -> Iterator[Row]:
    yield from _headline(report)
    yield from _layers(report)
    yield from _fixes(report)
    if verbose:
        yield from _evidence(report.findings)
    else:
        yield 0, "", ""
        yield 0, "dim", "-v shows the evidence; gdr codes CODE explains a code"


def _headline(report: Report) -> Iterator[Row]:
    verdict, node = report.verdict, report.node
    about = " ".join(part for part in (node.hostname, node.kernel, f"({_source(report)})") if part)
    yield 0, verdict.state, f"{verdict.state.upper()}  {verdict.summary}"
    yield 0, "dim", about
    yield 0, "", ""
    width = max(6, *map(len, report.consumers))
    for name, consumer in report.consumers.items():
        direct = f", direct over {consumer.path}" if consumer.state in ("ready", "active") else ""
        fallback = "" if direct else _fallback(consumer.best_fallback)
        yield 2, consumer.state.removeprefix("bold "), f"{name:<{width}} {consumer.state}{direct}{fallback}"
    yield from _expectation(report.expectation)


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


def _fallback(fallback: str | None) -> str:
    match fallback:
        case "host-mapped":
            return "; use host-mapped: pinned host memory shared by NIC and GPU, as good as direct here"
        case "staged":
            return "; falls back to staged: copied through pinned host memory"
        case "socket":
            return "; falls back to socket"
        case _:
            return ""


def _source(report: Report) -> str:
    scope = "in a container" if report.node.scope == "container" else report.node.scope
    return ", ".join(part for part in (report.node.source, scope) if part)


def _layers(report: Report) -> Iterator[Row]:
    """Every layer, hardware first, with the first broken one marked."""
    yield 0, "", ""
    for layer in Layer:
        here = [f for f in report.findings if f.layer == layer]
        worst = min((f.status for f in here), key=WORST_FIRST.index, default="ok")
        mark = ">" if layer == report.verdict.first_broken_layer else " "
        yield 0, worst, f"{mark} {layer:<12} {worst}"
        for finding in _merged(f for f in here if f.status not in ("note", "unknown")):
            yield 4, finding.status, _finding(finding)
        for line in _unknowns(f for f in here if f.status == "unknown"):
            yield 4, "unknown", line
    notes = [f for f in report.findings if f.status == "note"]
    if notes:
        yield 0, "", ""
        yield 0, "", "Notes"
        for finding in _merged(notes):
            yield 2, "note", _finding(finding)


def _merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings that differ only in their subject, merged."""
    from msgspec.structs import replace

    groups: dict[tuple[str, ...], list[Finding]] = {}
    for f in findings:
        groups.setdefault((f.code, f.status, f.seen, f.expected), []).append(f)
    for group in groups.values():
        subjects = list(dict.fromkeys(f.subject for f in group))
        more = f" and {len(subjects) - 3} more" if len(subjects) > 4 else ""
        shown = subjects[: 3 if more else 4]
        yield replace(group[0], subject=", ".join(shown) + more)


def _unknowns(findings: Iterable[Finding]) -> Iterator[str]:
    """Unknown findings, merged by the evidence that they need: one command answers all codes of a line."""
    groups: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        groups.setdefault((finding.seen, finding.expected), []).append(finding.code)
    for (seen, command), codes in groups.items():
        named = list(dict.fromkeys(codes))
        more = f" and {len(named) - 3} more" if len(named) > 4 else ""
        source, _, why = seen.rpartition(": ")
        shown = ", ".join(named[: 3 if more else 4])
        yield f"? {shown}{more}: {source} ({why.replace('-', ' ')}); to find out, run: {command}"


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
        yield 0, "bold", "Nothing to fix: no change gives this hardware a direct path"
    if report.what_then and report.verdict.state in ("impossible", "blocked") and not report.plan:
        yield 0, "", ""
        yield 0, "bold", "Where each fix would lead"
        for chain in report.what_then:
            yield 2, "", " -> ".join(_step(step) for step in chain)


def _commands(report: Report) -> Iterator[Row]:
    """The commands that would collect the evidence that the unknown paths need."""
    missing = {m for j in report.judgements.values() if j.state == "unknown" for m in j.missing}
    commands = {
        f.expected: f.code
        for f in report.findings
        if f.status == "unknown" and f.seen.rpartition(": ")[0] in missing
    }
    if commands:
        yield 0, "", ""
        yield 0, "bold", "To find out, run"
        for command in commands:
            yield 2, "", command


def _plan(plan: PlanSection) -> Iterator[Row]:
    for number, step in enumerate(plan.steps, 1):
        reboot = ", needs a reboot" if step.needs_reboot else ""
        yield 2, "", f"{number}. {step.remedy}: {step.effect}{reboot}"
        blocked = f" by {', '.join(step.then.blocked_by)}" if step.then.blocked_by else ""
        yield 5, "dim", f"then {step.then.state}{blocked}. Risk: {step.risk}. Undo: {step.undo}"


def _step(step: ChainStep) -> str:
    modprobe = ""
    if step.modprobe is not None:
        error = step.modprobe.stderr.rpartition(": ")[2].strip()
        modprobe = f"modprobe: {error}; " if error else "nvidia-peermem loads; "
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
