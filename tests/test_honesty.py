"""Evidence that was not collected can change a verdict only to unknown."""

from __future__ import annotations

import random

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.verdict import judge_node
from gdrkit.verdict.node_state import ConsumerState
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down, names
from tests.hiding_host import HidingHost

SAMPLE = 12
"""Sources hidden on each node, one at a time and all together; the seed is the node's name."""


@pytest.fixture(scope="module", params=names())
def host(request):
    return request.param, open_host(str(laid_down(request.param)))


def states(host: HidingHost) -> dict[str, ConsumerState]:
    return {state.consumer: state for state in judge_node(Node(host)).states}


def allowed(before: ConsumerState, now: ConsumerState) -> tuple[State, ...]:
    """The states that less evidence may lead to. Where what is permanent is not known any more, what is
    left to fix remains."""
    may_be_permanent = now.worst is not None and any(result.rule.permanent for result in now.worst.open)
    if before.state is State.IMPOSSIBLE and may_be_permanent:
        return State.IMPOSSIBLE, State.UNKNOWN, State.BLOCKED
    return before.state, State.UNKNOWN


def test_hiding_a_source_changes_states_only_to_unknown(host):
    name, real = host
    whole = HidingHost(real)
    before = states(whole)
    chosen = random.Random(name).sample(sorted(whole.asked), k=min(SAMPLE, len(whole.asked)))
    for hidden in [{source} for source in chosen] + [set(chosen)]:
        for consumer, state in states(HidingHost(real, hidden)).items():
            assert state.state in allowed(before[consumer], state), (consumer, hidden)


def test_a_node_without_evidence_is_unknown(host):
    report = diagnose(BlindHost(host[1]))
    assert report.verdict.state == "unknown"
    assert report.modprobe is None or report.modprobe.confidence != "certain"


class BlindHost(HidingHost):
    """A host of which nothing was collected."""

    def _ask(self, name: str) -> None:
        raise EvidenceMissing(Missing(name, MissingReason.NOT_COLLECTED, f"look at {name}"))
