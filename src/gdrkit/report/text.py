"""The report for a terminal, read top down: verdict, ladder, where each fix leads, evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.report.document import ChainStep, PlanSection, Report
from gdrkit.report.terminal import Row, render
from gdrkit.rules.rule import Layer
from gdrkit.verdict.findings import Finding

WORST_FIRST = ("failed", "unknown", "warning", "note")
STYLES = {
    "active": "bold green", "ready": "bold green", "blocked": "bold red", "impossible": "bold yellow",
    "unknown": "bold magenta", "failed": "red", "warning": "yellow", "note": "dim", "ok": "green",
}  # fmt: skip


def text(report: Report, *, verbose: bool = False, colour: bool = False, width: int | None = None) -> str:
    """The report as lines, with ANSI colours where asked for. Width in columns."""
    return render(_lines(report, verbose), STYLES, colour=colour, width=width)


def _lines(report: Report, verbose: bool) -> Iterator[Row]:
    yield from _headline(report)
    yield from _ladder(report)
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
        way = f", direct over {consumer.path}" if consumer.state in ("ready", "active") else ""
        instead = "" if way else _instead(consumer.best_fallback)
        yield 2, consumer.state.removeprefix("bold "), f"{name:<{width}} {consumer.state}{way}{instead}"


def _instead(fallback: str | None) -> str:
    match fallback:
        case "host-mapped":
            return "; use host-mapped: pinned host memory that NIC and GPU share, as good as direct here"
        case "staged":
            return "; falls back to staged: copied through pinned host memory"
        case "socket":
            return "; falls back to socket"
        case _:
            return ""


def _source(report: Report) -> str:
    scope = "in a container" if report.node.scope == "container" else report.node.scope
    return ", ".join(part for part in (report.node.source, scope) if part)


def _ladder(report: Report) -> Iterator[Row]:
    """Every layer from the ground up, the first broken one marked."""
    yield 0, "", ""
    for layer in Layer:
        here = [f for f in report.findings if f.layer == layer]
        worst = min((f.status for f in here), key=WORST_FIRST.index, default="ok")
        mark = ">" if layer == report.verdict.first_broken_layer else " "
        yield 0, worst, f"{mark} {layer:<12} {worst}"
        for finding in _merged(f for f in here if f.status not in ("note", "unknown")):
            yield 4, finding.status, _told(finding)
        for words in _unanswered(f for f in here if f.status == "unknown"):
            yield 4, "unknown", words
    notes = [f for f in report.findings if f.status == "note"]
    if notes:
        yield 0, "", ""
        yield 0, "", "Notes"
        for finding in _merged(notes):
            yield 2, "note", _told(finding)


def _merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings that say the same of several subjects, once."""
    from msgspec.structs import replace

    groups: dict[tuple[str, ...], list[Finding]] = {}
    for f in findings:
        groups.setdefault((f.code, f.status, f.seen, f.expected), []).append(f)
    for group in groups.values():
        subjects = list(dict.fromkeys(f.subject for f in group))
        more = f" and {len(subjects) - 3} more" if len(subjects) > 4 else ""
        shown = subjects[: 3 if more else 4]
        yield replace(group[0], subject=", ".join(shown) + more)


def _unanswered(findings: Iterable[Finding]) -> Iterator[str]:
    """What could not be asked, by what was missing: one look answers all that stand in one line."""
    groups: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        groups.setdefault((finding.seen, finding.expected), []).append(finding.code)
    for (seen, ask), codes in groups.items():
        named = list(dict.fromkeys(codes))
        more = f" and {len(named) - 3} more" if len(named) > 4 else ""
        source, _, why = seen.rpartition(": ")
        yield f"? {', '.join(named[: 3 if more else 4])}{more}: {source} ({why}); ask: {ask}"


def _told(finding: Finding) -> str:
    subject = f" {finding.subject}" if finding.subject not in ("", "node") else ""
    sure = "" if finding.confidence == "certain" else f" ({finding.confidence})"
    expected = f"; expected {finding.expected}" if finding.expected else ""
    cost = f". {finding.cost[0].upper()}{finding.cost[1:].rstrip('.')}." if finding.cost else ""
    return f"{finding.code}{subject}: {finding.seen}{expected}{sure}{cost}"


def _fixes(report: Report) -> Iterator[Row]:
    if report.verdict.state == "unknown":
        yield from _asks(report)
    if report.plan:
        for number, plan in enumerate(report.plan):
            yield 0, "", ""
            yield 0, "bold", "What to do" if number == 0 else "Or"
            yield from _plan(plan)
    elif report.verdict.state == "impossible":
        yield 0, "", ""
        yield 0, "bold", "Nothing needs fixing: no step makes this hardware do it"
    if report.what_then and report.verdict.state in ("impossible", "blocked") and not report.plan:
        yield 0, "", ""
        yield 0, "bold", "Where each fix would lead"
        for chain in report.what_then:
            yield 2, "", " -> ".join(_led(step) for step in chain)


def _asks(report: Report) -> Iterator[Row]:
    """What would settle it, from the sources that the undecided paths still lack."""
    lacking = {m for j in report.judgements.values() if j.state == "unknown" for m in j.missing}
    asks = {
        f.expected: f.code
        for f in report.findings
        if f.status == "unknown" and f.seen.rpartition(": ")[0] in lacking
    }
    if asks:
        yield 0, "", ""
        yield 0, "bold", "What would tell"
        for ask in asks:
            yield 2, "", ask


def _plan(plan: PlanSection) -> Iterator[Row]:
    for number, step in enumerate(plan.steps, 1):
        reboot = ", needs a reboot" if step.needs_reboot else ""
        yield 2, "", f"{number}. {step.remedy}: {step.effect}{reboot}"
        blocked = f" by {', '.join(step.then.blocked_by)}" if step.then.blocked_by else ""
        yield 5, "dim", f"then {step.then.state}{blocked}. Risk: {step.risk}. Undo: {step.undo}"


def _led(step: ChainStep) -> str:
    said = ""
    if step.modprobe is not None:
        said = step.modprobe.stderr.rpartition(": ")[2].strip() or "nvidia-peermem loads"
        said = f"modprobe: {said}; " if step.modprobe.stderr else f"{said}; "
    blocked = f": {', '.join(step.then.blocked_by)}" if step.then.blocked_by else ""
    return f"{step.remedy} ({said}{step.then.state}{blocked})"


def _evidence(findings: Iterable[Finding]) -> Iterator[Row]:
    yield 0, "", ""
    yield 0, "bold", "Evidence"
    for finding in findings:
        yield 2, finding.status, f"{finding.code} {finding.subject} [{finding.confidence}]"
        for source in finding.evidence:
            place = f" {source.locator}" if source.locator else ""
            quote = f": {source.text}" if source.text else ""
            yield 6, "dim", f"{source.source}{place}{quote}"
        for reference in finding.references:
            yield 6, "dim", f"see {reference}"
