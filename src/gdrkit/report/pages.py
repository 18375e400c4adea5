"""The documentation page of each finding code, made from the rule that declares it. PURE."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.repair.remedies import BY_NAME
from gdrkit.rules import RULES
from gdrkit.rules.rule import Rule


class Title(Struct, frozen=True):
    """One row of the index of codes."""

    code: str
    layer: str
    title: str


def titles() -> tuple[Title, ...]:
    """Every code, by layer, with the first sentence of its page."""
    rules = sorted(RULES, key=lambda rule: rule.layer)
    return tuple(Title(rule.code, rule.layer, _sections(rule)[0]) for rule in rules)


def page(code: str) -> str:
    """The page of a code as Markdown. Raises StopIteration for a code that no rule declares."""
    rule = next(rule for rule in RULES if rule.code == code)
    title, body = _sections(rule)
    lines = [f"# {code}", "", title, "", f"Layer: {rule.layer}.", ""]
    if body:
        lines += [body, ""]
    if rule.cost and "cost" not in body.lower():
        lines += [f"Cost: {rule.cost}", ""]
    if rule.remedies:
        cures = (BY_NAME[name] for name in rule.remedies)
        lines += ["## Remedies", ""]
        lines += [f"- `{remedy.name}`: {remedy.title}. {remedy.becomes}" for remedy in cures] + [""]
    if rule.references:
        lines += ["## See", "", *(f"- {reference}" for reference in rule.references), ""]
    return "\n".join(lines)


def _sections(rule: Rule) -> tuple[str, str]:
    """The first paragraph on one line, and the rest as it was written."""
    from inspect import cleandoc

    head, _, body = cleandoc(rule.page).partition("\n\n")
    return " ".join(head.split()), body.strip()
