"""Evidence that was not collected can change a verdict only to unknown."""

from __future__ import annotations

import random

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.verdict import judge_node
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down, names
from tests.hiding_host import HidingHost

SAMPLE = 12
"""Sources hidden on each node, one at a time and all together; the seed is the node's name."""


@pytest.fixture(scope="module", params=names())
def host(request):
    return request.param, open_host(str(laid_down(request.param)))


def states(host: HidingHost) -> dict[str, State]:
    return {state.consumer: state.state for state in judge_node(Node(host)).states}


def test_hiding_a_source_changes_states_only_to_unknown(host):
    name, real = host
    whole = HidingHost(real)
    before = states(whole)
    chosen = random.Random(name).sample(sorted(whole.asked), k=min(SAMPLE, len(whole.asked)))
    for hidden in [{source} for source in chosen] + [set(chosen)]:
        for consumer, state in states(HidingHost(real, hidden)).items():
            assert state in (before[consumer], State.UNKNOWN), (consumer, hidden)


def test_a_node_without_evidence_is_unknown(host):
    report = diagnose(BlindHost(host[1]))
    assert report.verdict.state == "unknown"
    assert report.modprobe is None or report.modprobe.confidence != "certain"


class BlindHost(HidingHost):
    """A host of which nothing was collected."""

    def _ask(self, name: str) -> None:
        raise EvidenceMissing(Missing(name, MissingReason.NOT_COLLECTED, f"look at {name}"))
