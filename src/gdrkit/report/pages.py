"""Generate the documentation page of each finding code from its rule."""

from __future__ import annotations

import re
from textwrap import dedent

from msgspec import Struct

from gdrkit.catalogue import every_rule, rule_of
from gdrkit.rules.rule import Rule

HEADINGS = ("What it means", "How to tell", "What to do", "Why", "Source")
"""The sections of every page, in the order in which a reader needs them."""
IN_SLURM, IN_A_POD = "In a job of Slurm", "In a pod"
"""Labels of paragraphs of "What to do" for such jobs alone: `In a job of Slurm: the limit is ...`."""

ELSEWHERE = (
    "Where a GPU Operator, an image, a cloud or the owner of the host decides, this is done in another way, "
    "or cannot be done: `gdr fix NODE` says how, and by whom."
)
"""Below remedies that are done on the host: a page is not about one platform."""


ADVICE_CHARACTERS = 260
"""Sentences of a code's page are quoted up to about this length, two to four lines. It has more."""


class CodeTitle(Struct, frozen=True):
    """One row of the index of codes."""

    code: str
    layer: str
    title: str


def titles() -> tuple[CodeTitle, ...]:
    """Every code, sorted by layer, with the first sentence of its page."""
    rules = sorted(every_rule(), key=lambda rule: rule.layer)
    return tuple(CodeTitle(rule.code, rule.layer, sections(rule)[0]) for rule in rules)


def page(code: str) -> str:
    """The page of a code as Markdown. Raises KeyError for an unknown code.

    Every page has all of HEADINGS, in that order.
    """
    from gdrkit.repair.platforms.change import Change
    from gdrkit.repair.remedies import remedy_of

    rule = rule_of(code)
    title, parts = sections(rule)
    remedies = [remedy_of(name) for name in rule.remedies]
    more = {
        "What to do": [
            *(f"- `{remedy.name}`: {remedy.title}. Result: {remedy.becomes}." for remedy in remedies),
            *(("", ELSEWHERE) if any(remedy.changes is not Change.JOB for remedy in remedies) else ()),
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


def code_page(code: str) -> tuple[str, str]:
    """The first sentence of a code's page, and its section "What to do"."""
    title, parts = sections(rule_of(code))
    return title, parts["What to do"]


def sections(rule: Rule) -> tuple[str, dict[str, str]]:
    """The first sentence of a page on one line, and the text below each heading ("" if there is none).

    In the docstring of a rule, a paragraph that starts with `How to tell: ...` begins that section. The
    paragraphs before the first such heading, and the cost, belong to "What it means".
    """
    first, _, indented = rule.page.partition("\n")
    head, *paragraphs = f"{first}\n{dedent(indented)}".strip().split("\n\n")
    parts = dict.fromkeys(HEADINGS, "")
    heading = HEADINGS[0]
    for paragraph in paragraphs:
        label, colon, rest = paragraph.partition(": ")
        if colon and label in HEADINGS[1:]:
            heading, paragraph = label, rest
        elif colon and label in (IN_SLURM, IN_A_POD):
            paragraph = parts[label] = f"{label} {rest}"
        parts[heading] = f"{parts[heading]}\n\n{paragraph}".strip()
    if rule.cost and "Cost: " not in rule.page:
        parts["What it means"] = f"{parts['What it means']}\n\nCost: {rule.cost}".strip()
    return " ".join(head.split()), parts


def advice(code: str) -> str:
    """The first sentences of "What to do" on the code's page; with a condition, what to do otherwise."""
    chosen = ""
    for sentence in split_sentences(" ".join(code_page(code)[1].split())):
        is_long = len(chosen) + len(sentence) > ADVICE_CHARACTERS
        if chosen and is_long and not sentence.startswith("Otherwise"):
            break
        chosen = f"{chosen} {sentence}".strip()
    return re.sub(r"(?<=\. )\d\. ", "", chosen)  # the numbers of a list


def split_sentences(words: str) -> list[str]:
    """The sentences of a line of prose."""
    return re.split(r"(?<=\D[.]) (?=[A-Z`\d])", words)
