"""What a person can do about a blocker that no step of `gdr fix` cures: cables, switches, cards."""

from __future__ import annotations

from gdrkit.facts.driver_files import has_driver_container
from gdrkit.node import Node
from gdrkit.repair.platforms.action import AskPerson
from gdrkit.repair.platforms.operator import change_policy
from gdrkit.report.pages import sections
from gdrkit.rules.rule import Failed
from gdrkit.verdict import Verdict
from gdrkit.verdict.check_results import CheckResult
from gdrkit.verdict.path_state import State


def advice(node: Node, verdict: Verdict, consumer: str) -> tuple[AskPerson, ...]:
    """For a node that is blocked: each blocker without a remedy; if all have one, and none leads to ready,
    each blocker. Promises nothing about the verdict."""
    state = verdict.of(consumer)
    if state.state is not State.BLOCKED:
        return ()
    blockers = dict.fromkeys(result for judgement in state.judgements for result in judgement.blocked_by)
    by_hand = [result for result in blockers if not result.rule.remedies] or blockers
    texts = (_about(result) for result in by_hand)
    found = tuple(AskPerson(what=text) for text in dict.fromkeys(texts))
    return (*found, *change_policy(node)) if has_driver_container(node) else found


def _about(result: CheckResult) -> str:
    if isinstance(result.outcome, Failed) and result.outcome.advice:
        return result.outcome.advice
    first, *_ = sections(result.rule)[1]["What to do"].split("\n\n")
    return f"{result.rule.code}: {' '.join(first.split())}"
