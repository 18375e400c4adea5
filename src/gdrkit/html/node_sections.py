"""The parts of a node's page that list: layers and findings, fixes, what is missing, words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdrkit.formats.plural import plural
from gdrkit.html.page import Glyph, command, glyph, rich, safe, section, table
from gdrkit.report.answers import by_evidence, in_words, naming
from gdrkit.report.causes import deciding
from gdrkit.report.document import ChainStep, PlanSection, PlanStep, Report
from gdrkit.report.glossary import GLOSSARY
from gdrkit.report.pages import advice
from gdrkit.rules.rule import Layer
from gdrkit.verdict.findings import Evidence, Finding
from gdrkit.verdict.path_state import GOOD

STATE_GLYPHS: dict[str, Glyph] = {
    "active": "ok", "ready": "ok", "blocked": "bad", "unknown": "unknown", "impossible": "impossible",
    "failed": "bad", "permanent": "impossible", "warning": "warning", "note": "note",
}  # fmt: skip


def layers(report: Report, target: str) -> str:
    """The layers from the ground up; the findings of the broken one are open."""
    rows = []
    for layer in Layer:
        here = [f for f in report.findings if f.layer == layer and f.status != "unknown"]
        unknown = sum(f.layer == layer and f.status == "unknown" for f in report.findings)
        broken = layer == report.verdict.first_broken_layer
        lasts = all(f.permanent for f in here if f.status == "failed")
        for status in ("failed", "warning"):
            if any(f.status == status for f in here):
                worst = STATE_GLYPHS["permanent" if status == "failed" and lasts else status]
                break
        else:
            worst = "unknown" if unknown else "ok"
        found = "".join(_finding(f, target, is_open=f.status == "failed") for f in here)
        more = (
            f'<p class="sub">{plural(unknown, "check")} lacked evidence; see below.</p>' if unknown else ""
        )
        nothing = "" if found or more else '<p class="sub">nothing found</p>'
        names = ' class="hit"' if broken else ""
        rows.append(
            f"<li{names}>{glyph(worst)}<b>{safe(layer.value)}</b><div>{found}{more}{nothing}</div></li>"
        )
    about = "From the ground up: a layer works only if those before it do. A finding opens to its evidence."
    return section("layers", "The layers", about, f'<ol class="layers">{"".join(rows)}</ol>')


def _finding(finding: Finding, target: str, *, is_open: bool) -> str:
    subject = f" {finding.subject}" if finding.subject not in ("", "node") else ""
    expected = f"<p>Expected: {rich(finding.expected)}.</p>" if finding.expected else ""
    cost = f"<p>{rich(finding.cost)}</p>" if finding.cost else ""
    do = finding.advice or (advice(finding.code) if finding.status != "note" else "")
    doing = f"<p><b>What to do.</b> {rich(naming(do, target))}</p>" if do else ""
    evidence = _evidence(finding.evidence)
    status = "permanent" if finding.status == "failed" and finding.permanent else finding.status
    links = "".join(f"<li>{_link(reference)}</li>" for reference in finding.references)
    return (
        f"<details{' open' if is_open else ''}><summary>{glyph(STATE_GLYPHS[status])}<span><code>"
        f"{safe(finding.code)}</code>{safe(subject)}: {rich(finding.seen)}</span>"
        f"<small>{safe(status)}, {safe(finding.confidence.value)}</small></summary>"
        '<div class="body">'
        f"{expected}{cost}{doing}{evidence}{f'<ul>{links}</ul>' if links else ''}</div></details>"
    )


def running(report: Report) -> str:
    """The processes that use a direct path, as `gdr doctor` names them."""
    if not report.in_use:
        return ""
    rows = (
        (
            f"{safe(process.name)} <small>{process.pid}</small>",
            safe(process.job) or "none",
            ", ".join(f"<code>{safe(device)}</code>" for device in process.devices) or "not known",
            safe(process.path) or "not known",
            f"{rich(process.because)} <small>({safe(process.confidence.value)})</small>",
        )
        for process in report.in_use
    )
    return section(
        "running",
        "In use",
        "Processes that use a direct path, when this was read. `gdr ps` also shows those that do not.",
        table(("process", "job", "NICs", "path", "because"), rows, "running"),
    )


def _evidence(found: Sequence[Evidence]) -> str:
    """What was read: a row for each place or text, then the names of what was read besides."""
    telling = [one for one in found if one.locator or one.text]
    others = dict.fromkeys(one.source for one in found if not (one.locator or one.text))
    rows = [(f"<code>{safe(e.source)}</code>", safe(e.locator), safe(e.text)) for e in telling]
    listed = table(("file or command", "place", "text"), rows, "ev") if rows else ""
    names = ", ".join(f"<code>{safe(name)}</code>" for name in others)
    besides = "Also read" if rows else "Read"
    return listed + (f'<p class="ev sub">{besides}: {names}</p>' if names else "")


def _link(reference: str) -> str:
    if re.fullmatch(r"https?://[^\s\"'<>]+", reference):
        return f'<a href="{safe(reference)}" rel="noreferrer noopener">{safe(reference)}</a>'
    return safe(reference)


def fixes(report: Report) -> str:
    """The plans, then where each obvious fix would end; dead ends are grey."""
    plans = "".join(_plan(plan, number) for number, plan in enumerate(report.plan))
    ends = "".join(_chain(chain) for chain in report.what_then)
    if not plans and not ends:
        return ""
    return section(
        "fixes",
        "Where each fix leads",
        "Each end is the verdict on the node as it would be then.",
        f'<div class="plans">{plans}{ends}</div>',
    )


def _plan(plan: PlanSection, number: int) -> str:
    steps = "".join(f"<li>{plan_step(step)}</li>" for step in plan.steps)
    end = plan.steps[-1].then.state.value
    title = "The shortest plan" if number == 0 else "Another plan"
    return (
        f'<div class="entry"><h3>{glyph(STATE_GLYPHS[end])} {title}: ends {safe(end)}</h3>'
        f'<ol class="steps">{steps}</ol></div>'
    )


def plan_step(step: PlanStep) -> str:
    """One step of a plan: what it does, its risk, its undo, and the verdict afterwards."""
    reboot = "needs a reboot" if step.needs_reboot else "no reboot"
    return (
        f"<b>{safe(step.remedy)}</b> {safe(step.effect)} <small>{reboot}. Risk: {safe(step.risk)}. "
        f"Undo: {safe(step.undo)}. Then: {safe(step.then.state.value)}.</small>"
    )


def _chain(chain: Sequence[ChainStep]) -> str:
    end = chain[-1].then.state.value
    dead = "" if chain[-1].then.state in GOOD else " dead"
    return (
        f'<div class="entry{dead}"><h3>{glyph(STATE_GLYPHS[end])} {safe(chain[0].remedy)}: ends '
        f"{safe(end)}</h3>"
        f'<ol class="steps">{"".join(f"<li>{_chain_step(step)}</li>" for step in chain)}</ol></div>'
    )


def _chain_step(step: ChainStep) -> str:
    still = f", lacks {', '.join(step.then.blocked_by)}" if step.then.blocked_by else ""
    error = (
        f" modprobe says: <code>{safe(step.modprobe.stderr)}</code>"
        if step.modprobe and step.modprobe.stderr
        else ""
    )
    return (
        f"<b>{safe(step.remedy)}</b> {safe(step.effect)}{error} "
        f"<small>Then: {safe(step.then.state.value + still)}.</small>"
    )


def unseen(report: Report) -> str:
    """What could not be read, one row for each command that would tell."""
    groups = by_evidence(finding for finding in report.findings if finding.status == "unknown")
    if not groups:
        return ""
    decides = {finding.seen for finding in deciding(report)}
    rows = (
        (
            f"{safe(source)} <small>({safe(in_words(why))})</small>"
            + (" <b>decides the verdict</b>" if f"{source}: {why}" in decides else ""),
            ", ".join(f"<code>{safe(code)}</code>" for code in codes),
            command(ask) if ask else "",
        )
        for (source, why, ask), codes in groups.items()
    )
    return section(
        "unseen",
        "What could not be seen",
        "Unknown is an answer. Each row has the command that finds out.",
        table(("missing", "leaves open", "to find out"), rows, "unseen"),
    )


def glossary(report: Report) -> str:
    """The terms that the page uses."""
    seen = " ".join(f"{f.seen} {f.expected} {f.cost} {f.advice}" for f in report.findings)
    seen += " ".join(f"{step.effect} {step.remedy}" for chain in report.what_then for step in chain)
    seen += " PIX PHB NODE SYS dma-buf NCCL staged"
    words = set(re.findall(r"[\w-]+", seen.casefold()))
    terms = [t for t in GLOSSARY if {t.name.casefold(), *(a.casefold() for a in t.also)} & words]
    rows = "".join(f"<dt>{safe(term.name)}</dt><dd>{rich(term.text)}</dd>" for term in terms)
    return section("words", "Words", "Terms of this page.", f'<dl class="words">{rows}</dl>') if rows else ""
