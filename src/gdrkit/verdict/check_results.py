"""Runs every rule on each of its subjects, and keeps the evidence of each outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.node import Node, Trail
from gdrkit.rules.capabilities import Need
from gdrkit.rules.engine import judge, subjects_of
from gdrkit.rules.legacy_nv_peer_mem import serving_client
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Passed, Rule, Unknown
from gdrkit.verdict.cells import with_engines


class CheckResult(Struct, frozen=True):
    """The outcome of one rule for one subject."""

    rule: Rule
    subject: object  # None if the subjects themselves are unknown
    outcome: Outcome
    takes: tuple[Need, ...] = ()  # what it takes away, or would if it failed; () if it does not apply

    @property
    def decisive(self) -> bool:
        return isinstance(self.outcome, Failed | Unknown)


def check_results(
    node: Node, rules: Iterable[Rule], about: Callable[[object], bool] = lambda subject: True
) -> tuple[CheckResult, ...]:
    """The results of every rule for each of its subjects, or for those that `about` selects.

    A rule whose subjects are unknown yields one Unknown, never a pass."""
    results = []
    for rule in rules:
        try:
            subjects = subjects_of(node, rule)
        except EvidenceMissing as error:
            results.append(_result(node, rule, None, Unknown(error.missing)))
        else:
            for subject in subjects:
                if about(subject):
                    results.append(_result(node, rule, subject, _here(node, rule, subject)))
    return tuple(results)


def _result(node: Node, rule: Rule, subject: object, outcome: Outcome) -> CheckResult:
    if isinstance(outcome, NotApplicable):
        return CheckResult(rule, subject, outcome)
    narrowed = outcome.takes if isinstance(outcome, Failed) else None
    takes = rule.takes(subject) if narrowed is None else narrowed
    return CheckResult(rule, subject, outcome, with_engines(node, takes))


def _here(node: Node, rule: Rule, subject: object) -> Outcome:
    """The outcome, as it counts on this node: whether nvidia-peermem could be loaded decides nothing while
    nv_peer_mem runs in its place."""
    outcome = judge(node, rule, subject)
    if not rule.about_loading or subject == DRIVER or serving_client(node) != LEGACY:
        return outcome
    match outcome:
        case Failed():
            cost = f"Nothing while {LEGACY} is loaded, which registers GPU memory in its place."
            return replace(outcome, takes=(), cost=cost)
        case Unknown() | Passed(lacking=(_, *_)):
            return NotApplicable(f"{LEGACY} is loaded instead")
    return outcome


def confidence_of(node: Node, result: CheckResult) -> Confidence:
    """The confidence of a result: that of its weakest evidence."""
    if result.subject is None:
        return node.confidence(subjects_of, result.rule)
    return node.confidence(judge, result.rule, result.subject)


def trail_of(node: Node, result: CheckResult) -> Trail:
    """The evidence of a result."""
    if result.subject is None:
        return node.trail(subjects_of, result.rule)
    return node.trail(judge, result.rule, result.subject)
