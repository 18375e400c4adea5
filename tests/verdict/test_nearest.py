"""Which pairs of a GPU count: the nearest, and any that may be nearer."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.rdma import Pair, distance, pairs
from gdrkit.node import Node
from gdrkit.verdict import judge_node
from gdrkit.verdict.node_state import nearest_pairs
from tests.evidence_nodes import laid_down

UNKNOWN = Missing("distance", MissingReason.NOT_COLLECTED, "nvidia-smi topo -m")


@pytest.fixture
def node() -> Node:
    """Eight GPUs, and eight NICs at various distances."""
    return Node(open_host(str(laid_down("dgx-a100-proprietary"))))


def counting(node: Node) -> set[Pair]:
    return {pair for pair in nearest_pairs(node, judge_node(node).matrix) if pair is not None}


def test_the_nearest_pairs_of_each_gpu_count(node):
    found = counting(node)
    for gpu in {pair.gpu for pair in pairs(node)}:
        ways = {pair: distance(node, pair) for pair in pairs(node) if pair.gpu == gpu}
        nearest = {pair for pair, far in ways.items() if far == "PIX"}
        assert nearest and nearest < set(ways)
        assert {pair for pair in found if pair.gpu == gpu} == nearest


def test_a_pair_of_unknown_distance_counts_too(node):
    before = counting(node)
    (far, *_) = [pair for pair in pairs(node) if pair not in before]
    assert counting(node.after("unseen", [distance.becomes(UNKNOWN, far)])) == {*before, far}


def test_without_any_distance_all_pairs_count(node):
    unseen = node.after("unseen", [distance.becomes(UNKNOWN, pair) for pair in pairs(node)])
    assert counting(unseen) == set(pairs(node))
