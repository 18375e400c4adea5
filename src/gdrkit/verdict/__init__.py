"""Rules in, one verdict out. PURE."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gdrkit.consumers import CONSUMERS
from gdrkit.evidence import Lacks
from gdrkit.facts.libraries import nccl_version
from gdrkit.facts.virtual import scope
from gdrkit.node import Node
from gdrkit.rules import RULES
from gdrkit.rules.engine import Ruling, rulings
from gdrkit.rules.rule import Rule
from gdrkit.verdict.findings import Finding, findings
from gdrkit.verdict.matrix import Matrix, matrix
from gdrkit.verdict.node_state import ConsumerState, consumer_state


class Verdict(Struct, frozen=True, kw_only=True):
    """Everything that the rules make of a node."""

    rulings: tuple[Ruling, ...]
    matrix: Matrix
    states: tuple[ConsumerState, ...]  # in the order of CONSUMERS
    findings: tuple[Finding, ...]
    assumes: tuple[str, ...]

    def of(self, consumer: str) -> ConsumerState:
        return next(state for state in self.states if state.consumer == consumer)


def judge_node(node: Node, rules: Iterable[Rule] = RULES) -> Verdict:
    """Ask every rule, fill the matrix, and sum it up for each consumer."""
    answers = rulings(node, rules)
    table = matrix(node, answers)
    states = tuple(consumer_state(node, table, consumer.name) for consumer in CONSUMERS)
    return Verdict(
        rulings=answers,
        matrix=table,
        states=states,
        findings=findings(node, answers, table, states),
        assumes=assumptions(node),
    )


def assumptions(node: Node) -> tuple[str, ...]:
    """What the verdict takes for granted because nothing here tells: versions of what is not in sight."""
    assumed = []
    try:
        nccl_version(node)
    except Lacks:
        assumed.append("NCCL 2.23.4 or newer")
    try:
        scope(node)
    except Lacks:
        assumed.append("read on the host, not in a container")
    return tuple(assumed)
