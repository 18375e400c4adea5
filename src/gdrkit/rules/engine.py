"""Asks every rule about each of its subjects, and keeps what every outcome stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.loader_log import load_lines
from gdrkit.node import Node, Trail, fact, if_missing
from gdrkit.rules.rule import Failed, Outcome, Rule, Unknown


class CheckResult(Struct, frozen=True):
    """One rule's answer about one subject."""

    rule: Rule
    subject: object  # None where the subjects themselves are not known
    outcome: Outcome

    @property
    def decisive(self) -> bool:
        return isinstance(self.outcome, Failed | Unknown)


def check_results(
    node: Node, rules: Iterable[Rule], about: Callable[[object], bool] = lambda subject: True
) -> tuple[CheckResult, ...]:
    """Every rule about each of its subjects, or those that are asked about.

    A rule whose subjects are unknown is unanswered, not passed."""
    answers = []
    for rule in rules:
        try:
            subjects = subjects_of(node, rule)
        except EvidenceMissing as lacks:
            answers.append(CheckResult(rule, None, Unknown(lacks.missing)))
            continue
        answers.extend(
            CheckResult(rule, subject, judge(node, rule, subject)) for subject in subjects if about(subject)
        )
    return tuple(answers)


@fact
def subjects_of(node: Node, rule: Rule) -> tuple[object, ...]:
    """What a rule is asked about here."""
    return tuple(rule.per(node))


@fact
def judge(node: Node, rule: Rule, subject: object) -> Outcome:
    """What the rule says; where it lacks facts, what the kernel said in words of one meaning."""
    try:
        return rule.check(node, subject)
    except EvidenceMissing as lacks:
        return logged_failure(node, rule.code, subject) or Unknown(lacks.missing)


def logged_failure(node: Node, code: str, subject: object) -> Failed | None:
    """What the kernel's log says of this code and this module, in words of one meaning that name the module.

    The last such line counts. None where there is none, or no log.
    """
    for line in reversed(if_missing((), load_lines, node)):
        if line.causes == (code,) and line.values.get("module") == subject:
            node.cite("dmesg", text=line.text, line=line.number)
            return Failed(seen=line.text, expected="no such line in the kernel's log", subject=str(subject))
    return None


def confidence_of(node: Node, ruling: CheckResult) -> Confidence:
    """How far a ruling can be trusted: as far as the weakest thing under it."""
    if ruling.subject is None:
        return node.confidence(subjects_of, ruling.rule)
    return node.confidence(judge, ruling.rule, ruling.subject)


def trail_of(node: Node, ruling: CheckResult) -> Trail:
    """The evidence under a ruling."""
    if ruling.subject is None:
        return node.trail(subjects_of, ruling.rule)
    return node.trail(judge, ruling.rule, ruling.subject)
