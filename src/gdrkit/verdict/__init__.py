"""The verdict on a node, from the results of all rules."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.catalogue import every_consumer
from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.virtual import scope
from gdrkit.node import Node
from gdrkit.programs.leading import leading_program
from gdrkit.programs.names import NAMES
from gdrkit.verdict.called_for import rules_called_for
from gdrkit.verdict.check_results import CheckResult, check_results
from gdrkit.verdict.findings import Finding, findings
from gdrkit.verdict.matrix import Matrix, matrix
from gdrkit.verdict.node_state import ConsumerState, consumer_state


class Assumption(Struct, frozen=True):
    """What the verdict assumes because the evidence does not show it."""

    text: str
    consumer: str = ""  # the program whose states depend on it; "" for every program


class Verdict(Struct, frozen=True, kw_only=True):
    """The results of the rules for a node, and what follows from them."""

    check_results: tuple[CheckResult, ...]
    matrix: Matrix
    states: tuple[ConsumerState, ...]  # in the order of the programs
    findings: tuple[Finding, ...]
    assumes: tuple[Assumption, ...]

    def of(self, consumer: str) -> ConsumerState:
        return next(state for state in self.states if state.consumer == consumer)

    def has_remedy(self, consumer: str) -> bool:
        """Whether there is a remedy for anything that is in a program's way."""
        states = (one for row in self.matrix.values() for one in row if one.consumer == consumer)
        return any(result.rule.remedies for one in states for result in one.blocked_by)

    def toward(self, node: Node, consumer: str, path: str) -> Verdict:
        """The same verdict, where of several paths with the same state this one decides for a consumer."""
        chosen = consumer_state(node, self.matrix, consumer, path)
        return replace(self, states=tuple(chosen if s.consumer == consumer else s for s in self.states))


def judge_node(node: Node, asked: str = "") -> Verdict:
    """The verdict of every rule: their results, the matrix, and the state for each consumer.

    The status of a finding considers the leading program, the one that is asked about, and those that any
    job may use; where NCCL does not lead, these do not drive the NICs either.
    """
    first = leading_program(node)
    counted = {first, asked, *(one.name for one in every_consumer() if one.common and first == NAMES[0])}
    results = check_results(node, rules_called_for(node))
    table = matrix(node, results)
    states = tuple(consumer_state(node, table, consumer.name) for consumer in every_consumer())
    shown = [state for state in states if state.consumer in counted]
    return Verdict(
        check_results=results,
        matrix=table,
        states=states,
        findings=findings(node, results, table, shown, first),
        assumes=assumptions(node),
    )


def assumptions(node: Node) -> tuple[Assumption, ...]:
    """Assumed versions of software that was not seen, and where the evidence was read."""
    assumed = []
    for consumer in every_consumer():
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
