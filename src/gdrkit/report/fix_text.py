"""Renders the report of `gdr fix` as text."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.formats.plural import plural
from gdrkit.report.fix_document import ActionSection, FixReport, StepSection
from gdrkit.report.pages import code_page
from gdrkit.report.programs import initiated_words
from gdrkit.report.terminal import COMMAND, QUOTE, WIDTH, Row, render
from gdrkit.report.text import STYLES
from gdrkit.verdict.path_state import GOOD

PAD, LABEL = 3, 9
"""Columns: the indent of what belongs to a step, and of what follows a word such as "risk"."""

_STYLES = {**STYLES, COMMAND: "cyan"}
_GOALS = {
    "module": "no known obstacle keeps nvidia-peermem from loading, now and at each boot",
    "steps": "the named steps are carried out",
}


def fix_text(report: FixReport, *, colour: bool = False, width: int | None = None) -> str:
    """The plans, shortest first, with the exact commands of each step: lines of `width` columns, of which a
    command is one, with ANSI colours if `colour`."""
    return render(_rows(report, width or WIDTH), _STYLES, colour=colour, width=width)


def step_text(step: StepSection, number: str, width: int | None = None) -> str:
    """A step as lines: its findings, risk, needs, actions, undo, and the verdict after it."""
    return render(_step(step, number, width or WIDTH), _STYLES, width=width)


def _rows(report: FixReport, width: int) -> Iterator[Row]:
    verdict = report.verdict
    yield 0, verdict.state, f"{verdict.state} for {verdict.consumer}: {verdict.summary}"
    if not report.plans:
        yield from ((0, "", ""), (0, "bold", _without_plan(report)))
    if report.gains_nothing:
        yield from ((0, "", ""), (0, "bold", f"no step brings a direct path: {_cause(report)}"))
        yield _labelled("now", report.gains_nothing, pad=0, style="none")
    for action in report.by_hand:
        yield 0, "", ""
        yield from _action(action, 0, width)
    if report.ask:
        yield from ((0, "", ""), _labelled("ask", report.ask, pad=0, style=""))
    for number, plan in enumerate(report.plans, 1):
        name = f"plan {number} of {len(report.plans)} (--plan {number})" if len(report.plans) > 1 else "plan"
        last = plan.steps[-1].then
        goal = _GOALS.get(report.aim) or f"verdict {last.state if last else 'unknown'}"
        yield 0, "", ""
        yield 0, "bold", f"{name}: {plural(len(plan.steps), 'step')}; result: {goal}"
        for index, step in enumerate(plan.steps, 1):
            yield 0, "", ""
            yield from _step(step, f"{index}. ", width)
    if report.further:
        also = "also recommended" if report.plans else "recommended"
        by_hand = all(action.kind == "ask-person" for step in report.further for action in step.actions)
        how = "by hand" if by_hand else "carry out with --steps NAME"
        yield from ((0, "", ""), (0, "bold", f"{also} ({how}):"))
    for step in report.further:
        yield 0, "", ""
        yield from _step(step, "", width)


def _without_plan(report: FixReport) -> str:
    if report.aim == "module":
        return "no plan makes nvidia-peermem load here; gdr modprobe nvidia-peermem shows why"
    if report.by_hand and report.verdict.state == "unknown":
        return "not enough evidence for a plan; do this first:"
    if report.by_hand and report.verdict.state not in ("impossible", *GOOD):
        return "no automatic fix; do this by hand:"
    later = report.further or report.by_hand
    working = "nothing to fix for a direct path now" if later else "nothing to fix"
    if report.by_hand:
        working += "; do this by hand:"
    return {
        "ready": working,
        "active": working,
        "impossible": f"cannot be fixed: {_cause(report)}",
        "unknown": "not enough evidence for a plan; gdr doctor names what is missing",
    }.get(report.verdict.state, "gdrkit has no plan for this; gdr doctor shows what blocks it")


def _cause(report: FixReport) -> str:
    """The permanent obstacle, in the words of its page."""
    title = code_page(report.verdict.cause)[0].removesuffix(".") if report.verdict.cause else ""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title or "nothing here can"


def _step(step: StepSection, number: str, width: int) -> Iterator[Row]:
    needs = [
        need for need, is_needed in (("root", step.needs_root), ("a reboot", step.needs_reboot)) if is_needed
    ]
    yield len(number), "bold", f"{step.remedy}: {step.title}", number
    if step.because:
        yield _labelled("because", "; ".join(step.because))
    yield _labelled("risk", step.risk)
    if needs:
        yield _labelled("needs", " and ".join(needs))
    if not step.actions:
        yield _labelled("do", "nothing: already done", style="none")
    for action in step.actions:
        yield from _action(action, PAD, width)
    if step.never_executed:
        yield _labelled("note", "not tested: some of these commands come from documentation only")
    yield _labelled("undo", step.undo)
    if step.then is not None:
        blocked_by = f" ({', '.join(step.then.blocked_by)})" if step.then.blocked_by else ""
        yield _labelled("then", f"verdict {step.then.state}{blocked_by}", style="none")
    for name, section in step.initiated.items():
        yield _labelled("then", f"{name}: {initiated_words(section)}", style="none")


def _labelled(label: str, words: str, *, pad: int = PAD, style: str = "dim") -> Row:
    return pad + LABEL, style, words, f"{'':{pad}}{label}"


def _action(action: ActionSection, pad: int, width: int) -> Iterator[Row]:
    """One action. Commands follow a `$`, ready to paste; a comment follows below where both are too long."""
    if action.kind in ("run", "enrol-key"):
        label, style, words = "do", COMMAND, f"$ {action.line}"
    elif action.kind == "ask-person":
        label, style, words = "by hand", "bold", action.line
    else:
        label, style, words = "do", "none", action.line
    both = f"{words}   # {action.why}"
    is_short = action.why and pad + LABEL + len(both) <= width
    yield _labelled(label, both if is_short else words, pad=pad, style=style)
    if action.why and not is_short:
        yield pad + LABEL + 2, "dim", action.why, f"{'':{pad + LABEL}}# "
    for line in action.content.splitlines():
        yield pad + LABEL + 2, QUOTE, f"| {line}"
    for command in action.commands if action.kind == "ask-person" else ():
        yield pad + LABEL, COMMAND, f"$ {command}"
