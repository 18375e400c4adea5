"""The documentation page of each finding code, made from the rule that declares it."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.repair.remedies import BY_NAME
from gdrkit.rules import RULES
from gdrkit.rules.rule import Rule

HEADINGS = ("What it means", "How to tell", "What to do", "Why", "Source")
"""The parts of every page, in the order in which a reader needs them."""


class CodeTitle(Struct, frozen=True):
    """One row of the index of codes."""

    code: str
    layer: str
    title: str


def titles() -> tuple[CodeTitle, ...]:
    """Every code, by layer, with the first sentence of its page."""
    rules = sorted(RULES, key=lambda rule: rule.layer)
    return tuple(CodeTitle(rule.code, rule.layer, sections(rule)[0]) for rule in rules)


def page(code: str) -> str:
    """The page of a code as Markdown. Raises StopIteration for a code that no rule declares.

    Every page has all of HEADINGS, in that order.
    """
    rule = next(rule for rule in RULES if rule.code == code)
    title, parts = sections(rule)
    remedies = [BY_NAME[name] for name in rule.remedies]
    more = {
        "What to do": [
            f"- `{remedy.name}`: {remedy.title}. Result: {remedy.becomes}." for remedy in remedies
        ],
        "Source": [f"- <{reference}>" for reference in rule.references],
    }
    parts["What it means"] = f"{title}\n\n{parts['What it means']}".strip()
    lines = [f"# {code}", "", f"Layer: {rule.layer}.", ""]
    for heading in HEADINGS:
        lines += [f"## {heading}", "", parts[heading], ""]
        if more.get(heading):
            lines += [*more[heading], ""]
    return "\n".join(lines)


def sections(rule: Rule) -> tuple[str, dict[str, str]]:
    """A page's first sentence on one line, and the text below each heading.

    In a rule's docstring they are paragraphs that begin with the heading and a colon, `How to tell: ...`;
    all before the first of them, and the cost, is what it means. A heading without text is "".
    """
    from inspect import cleandoc

    head, *paragraphs = cleandoc(rule.page).split("\n\n")
    parts = dict.fromkeys(HEADINGS, "")
    heading = HEADINGS[0]
    for paragraph in paragraphs:
        label, colon, rest = paragraph.partition(": ")
        if colon and label in HEADINGS[1:]:
            heading, paragraph = label, rest
        parts[heading] = f"{parts[heading]}\n\n{paragraph}".strip()
    if rule.cost and "Cost: " not in rule.page:
        parts["What it means"] = f"{parts['What it means']}\n\nCost: {rule.cost}".strip()
    return " ".join(head.split()), parts
