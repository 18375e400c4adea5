"""Renders the report of `gdr fix` as text."""

from __future__ import annotations

from gdrkit.formats.plural import plural
from gdrkit.report.fix_document import ActionSection, FixReport, StepSection
from gdrkit.report.pages import code_page
from gdrkit.report.programs import initiated_words
from gdrkit.report.text import STYLES

_GOALS = {
    "module": "nvidia-peermem loads, now and at each boot",
    "steps": "the named steps are carried out",
}


def fix_text(report: FixReport, *, colour: bool = False) -> str:
    """The plans, shortest first, with the exact commands of each step, with ANSI colours if `colour`."""
    lines = _lines(report)
    if not colour:
        return "\n".join(lines)
    from gdrkit.report.terminal import painted

    first, *rest = lines
    shown = [painted(first, STYLES.get(report.verdict.state, ""))]
    shown += [painted(line, "bold" if line[:1].strip() else _style(line)) for line in rest]
    return "\n".join(shown)


def _style(line: str) -> str:
    """The style of a line of a step. Content of files begins with a bar: it is never taken for a command."""
    match line.split(maxsplit=2):
        case ["do", "$", _] | ["$", *_]:
            return "cyan"
        case ["risk" | "undo" | "because" | "needs" | "note", *_]:
            return "dim"
        case ["by", "hand", *_]:
            return "bold"
        case _:
            return ""


def _lines(report: FixReport) -> list[str]:
    verdict = report.verdict
    lines = [f"{verdict.state} for {verdict.consumer}: {verdict.summary}", ""]
    if not report.ways:
        lines += [_without_plan(report), ""]
    for action in report.by_hand:
        lines += [*action_lines(action), ""]
    for number, way in enumerate(report.ways, 1):
        name = f"plan {number} of {len(report.ways)} (--way {number})" if len(report.ways) > 1 else "plan"
        last = way.steps[-1].then
        goal = _GOALS.get(report.aim) or f"verdict {last.state if last else 'unknown'}"
        lines += [f"{name}: {plural(len(way.steps), 'step')}; result: {goal}", ""]
        for index, step in enumerate(way.steps, 1):
            lines += [*step_lines(step, f"{index}. "), ""]
    if report.further:
        lines += ["also recommended (carry out with --steps NAME):", ""]
        for step in report.further:
            lines += [*step_lines(step, ""), ""]
    return lines


def _without_plan(report: FixReport) -> str:
    if report.aim == "module":
        return "no plan makes nvidia-peermem load here; gdr modprobe nvidia-peermem shows why"
    if report.by_hand:
        return "no automatic fix; do this by hand:"
    return {
        "ready": "nothing to fix",
        "active": "nothing to fix",
        "impossible": f"cannot be fixed: {_cause(report)}",
        "unknown": "not enough evidence for a plan; gdr doctor names what is missing",
    }.get(report.verdict.state, "gdrkit has no plan for this; gdr doctor shows what blocks it")


def _cause(report: FixReport) -> str:
    """The permanent obstacle, in the words of its page."""
    title = code_page(report.verdict.cause)[0].removesuffix(".") if report.verdict.cause else ""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title or "nothing here can"


def step_lines(step: StepSection, number: str) -> list[str]:
    """A step: its findings, risk, needs, actions, undo, and the verdict after it."""
    pad = "   "
    needs = [
        need for need, is_needed in (("root", step.needs_root), ("a reboot", step.needs_reboot)) if is_needed
    ]
    lines = [f"{number}{step.remedy}: {step.title}"]
    rows = [
        ("because", "; ".join(step.because)),
        ("risk", step.risk),
        ("needs", " and ".join(needs)),
    ]
    lines += [f"{pad}{name:<8} {text}" for name, text in rows if text]
    if not step.actions:
        lines.append(f"{pad}do       nothing: already done")
    for action in step.actions:
        lines += [pad + line for line in action_lines(action)]
    if step.never_executed:
        lines.append(f"{pad}note     not tested: some of these commands come from documentation only")
    lines.append(f"{pad}undo     {step.undo}")
    if step.then is not None:
        blocked_by = f" ({', '.join(step.then.blocked_by)})" if step.then.blocked_by else ""
        lines.append(f"{pad}then     verdict {step.then.state}{blocked_by}")
    for name, section in step.initiated.items():
        lines.append(f"{pad}then     {name}: {initiated_words(section)}")
    return lines


def action_lines(action: ActionSection) -> list[str]:
    """One action. Commands follow a `$`, ready to paste."""
    why = f"   # {action.why}" if action.why else ""
    match action.kind:
        case "run" | "enrol-key":
            return [f"do       $ {action.line}{why}"]
        case "ask-person":
            return [
                f"by hand  {action.line}",
                *(f"           | {line}" for line in action.content.splitlines()),
                *(f"         $ {command}" for command in action.commands),
            ]
        case "write" | "sign":
            return [
                f"do       {action.line}{why}",
                *(f"           | {t}" for t in action.content.splitlines()),
            ]
        case _:
            return [f"do       {action.line}{why}"]
