"""Rules in, one verdict out."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gdrkit.consumers.names import NAMES
from gdrkit.consumers.table import CONSUMERS, consumer_of
from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.virtual import scope
from gdrkit.node import Node
from gdrkit.rules import RULES
from gdrkit.rules.engine import CheckResult, check_results
from gdrkit.rules.rule import Rule
from gdrkit.verdict.findings import Finding, findings
from gdrkit.verdict.matrix import Matrix, matrix
from gdrkit.verdict.node_state import ConsumerState, consumer_state


class Assumption(Struct, frozen=True):
    """What the verdict takes for granted because nothing here tells."""

    text: str
    consumer: str = ""  # whose judgements rest on it; "" for every program's


class Verdict(Struct, frozen=True, kw_only=True):
    """Everything that the rules make of a node."""

    check_results: tuple[CheckResult, ...]
    matrix: Matrix
    states: tuple[ConsumerState, ...]  # in the order of CONSUMERS
    findings: tuple[Finding, ...]
    assumes: tuple[Assumption, ...]

    def of(self, consumer: str) -> ConsumerState:
        return next(state for state in self.states if state.consumer == consumer)


def judge_node(node: Node, rules: Iterable[Rule] = RULES, asked: str = NAMES[0]) -> Verdict:
    """Ask every rule, fill the matrix, and sum it up for each consumer.

    Findings matter as far as they concern programs that any job may bring, and the one that is asked about.
    """
    answers = check_results(node, rules)
    table = matrix(node, answers)
    states = tuple(consumer_state(node, table, consumer.name) for consumer in CONSUMERS)
    shown = [state for state in states if state.consumer == asked or consumer_of(state.consumer).common]
    return Verdict(
        check_results=answers,
        matrix=table,
        states=states,
        findings=findings(node, answers, table, shown),
        assumes=assumptions(node),
    )


def assumptions(node: Node) -> tuple[Assumption, ...]:
    """Versions of what is not in sight, and where this was read."""
    assumed = []
    for consumer in CONSUMERS:
        try:
            if consumer.version is not None:
                consumer.version(node)
        except EvidenceMissing:
            assumed.append(Assumption(consumer.modern, consumer.name))
    try:
        scope(node)
    except EvidenceMissing:
        assumed.append(Assumption("read on the host, not in a container"))
    return tuple(assumed)
