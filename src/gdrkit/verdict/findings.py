"""What is worth telling: each decisive ruling with the status that it deserves on this node. PURE."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gdrkit.consumers.names import NAMES
from gdrkit.evidence import Confidence, Source
from gdrkit.facts.rdma import Pair
from gdrkit.node import Node
from gdrkit.rules.engine import Ruling, confidence_of, trail_of
from gdrkit.rules.rule import DIRECT, Failed, NotApplicable, Passed, Status, Unknown
from gdrkit.verdict.judgement import State, stops
from gdrkit.verdict.matrix import Matrix, concerns
from gdrkit.verdict.node_state import ConsumerState

GOOD = (State.READY, State.ACTIVE)


SILENT = (Status.PASSED, Status.NOT_APPLICABLE)
"""What no report tells."""


class Finding(Struct, frozen=True, kw_only=True):
    """One ruling, as it matters here, with everything that it stands on."""

    ruling: Ruling
    status: Status
    confidence: Confidence
    evidence: tuple[Source, ...]  # of what the report is silent about: nothing


def findings(
    node: Node, rulings: Iterable[Ruling], table: Matrix, states: Iterable[ConsumerState]
) -> tuple[Finding, ...]:
    """Every ruling with its status, the ground first and within a layer the worst first."""
    states = tuple(states)
    nearest = {pair for state in states for pair in state.pairs}
    answers = []
    for ruling in rulings:
        if isinstance(ruling.subject, Pair) and ruling.subject not in nearest and ruling.decisive:
            continue  # a far NIC is no news: each GPU is judged at its nearest
        status = status_of(ruling, table, states)
        answers.append(
            Finding(
                ruling=ruling,
                status=status,
                confidence=confidence_of(node, ruling),
                evidence=() if status in SILENT else trail_of(node, ruling).sources,
            )
        )
    order = list(Status)
    return tuple(sorted(answers, key=lambda f: (f.ruling.rule.layer, order.index(f.status))))


def status_of(ruling: Ruling, table: Matrix, states: Iterable[ConsumerState]) -> Status:
    """What a ruling means, for the programs with these states. A blocker fails the node only where no other
    direct path is ready in its place."""
    match ruling.outcome:
        case Passed():
            return Status.PASSED
        case NotApplicable():
            return Status.NOT_APPLICABLE
        case Unknown():
            return Status.UNKNOWN
        case Failed():
            stopped = [s for s in states if any(stops(ruling, path, s.consumer) for path in DIRECT)]
            if stopped:
                return _status_of_blocker(ruling, table, stopped)
            return Status.WARNING if ruling.rule.slows else ruling.rule.default_status


def _status_of_blocker(ruling: Ruling, table: Matrix, stopped: Iterable[ConsumerState]) -> Status:
    """The program that leads decides whether it fails the node; another one alone makes it a warning."""
    suffering = [
        state.consumer
        for state in stopped
        if not all(_served(table, pair, state.consumer) for pair in _touched(ruling, table, state))
    ]
    if not suffering:
        return Status.NOTE
    return Status.FAILED if NAMES[0] in suffering else Status.WARNING


def _touched(ruling: Ruling, table: Matrix, state: ConsumerState) -> list[Pair | None]:
    """The pairs at which a GPU is judged, as far as this ruling has a say in them."""
    return [pair for pair in state.pairs or (None,) if concerns(ruling.subject, pair)]


def _served(table: Matrix, pair: Pair | None, consumer: str) -> bool:
    return any(j.state in GOOD for j in table[pair] if j.path in DIRECT and j.consumer == consumer)
