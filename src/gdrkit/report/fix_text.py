"""A plan as text for a person."""

from __future__ import annotations

from gdrkit.report.fix_document import ActionSection, FixReport, StepSection

_AIMS = {
    "module": "nvidia-peermem loads, now and at each boot",
    "steps": "the steps that were named",
}


def fix_text(report: FixReport) -> str:
    """The ways, the shortest first, with the exact commands of each step."""
    verdict = report.verdict
    lines = [f"{verdict.state} for {verdict.consumer}: {verdict.summary}", ""]
    if not report.ways:
        lines += [_nothing(report), ""]
    for number, way in enumerate(report.ways, 1):
        name = f"way {number} of {len(report.ways)}" if len(report.ways) > 1 else "the way"
        aim = _AIMS.get(report.aim) or f"to {way.steps[-1].then.state if way.steps[-1].then else '?'}"
        lines += [f"{name}, {_count(len(way.steps))}: {aim}", ""]
        for place, step in enumerate(way.steps, 1):
            lines += [*step_lines(step, f"{place}. "), ""]
    if report.further:
        lines += ["also worth doing, one by one with --steps NAME:", ""]
        for step in report.further:
            lines += [*step_lines(step, ""), ""]
    return "\n".join(lines)


def _count(steps: int) -> str:
    return f"{steps} step" + ("s" if steps > 1 else "")


def _nothing(report: FixReport) -> str:
    if report.aim == "module":
        return "no way is known to make nvidia-peermem load here; gdr modprobe nvidia-peermem says why"
    return {
        "ready": "nothing needs to be fixed",
        "active": "nothing needs to be fixed",
        "impossible": "nothing fixes this hardware",
        "unknown": "too little is known to plan anything; gdr doctor names what is missing",
    }.get(report.verdict.state, "no way is known to gdrkit; gdr doctor says what stands in the way")


def step_lines(step: StepSection, number: str) -> list[str]:
    """A step: what, why, what it costs, how it is done and undone."""
    pad = "   "
    needs = [word for word, is_so in (("root", step.needs_root), ("a reboot", step.needs_reboot)) if is_so]
    lines = [f"{number}{step.remedy}: {step.title}"]
    rows = [
        ("because", "; ".join(step.because)),
        ("risk", step.risk),
        ("needs", " and ".join(needs)),
    ]
    lines += [f"{pad}{name:<8} {text}" for name, text in rows if text]
    if not step.actions:
        lines.append(f"{pad}do       nothing: it is so already")
    for action in step.actions:
        lines += [pad + line for line in action_lines(action)]
    if step.never_executed:
        lines.append(f"{pad}note     made from documentation: nobody has run all of this for gdrkit yet")
    lines.append(f"{pad}undo     {step.undo}")
    if step.then is not None:
        still = f", still {', '.join(step.then.blocked_by)}" if step.then.blocked_by else ""
        lines.append(f"{pad}then     {step.then.state}{still}")
    return lines


def action_lines(action: ActionSection) -> list[str]:
    """One action; commands stand behind a `$`, as somebody would type them."""
    why = f"   # {action.why}" if action.why else ""
    match action.kind:
        case "run" | "enrol-key":
            return [f"do       $ {action.line}{why}"]
        case "ask-person":
            return [f"by hand  {action.line}"]
        case "write" | "sign":
            return [
                f"do       {action.line}{why}",
                *(f"           | {t}" for t in action.content.splitlines()),
            ]
        case _:
            return [f"do       {action.line}{why}"]
