"""Which pairs of a GPU count: the nearest, and any that may be nearer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.evidence import Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.rdma import Pair, below_one_switch, distance, pairs, ports
from gdrkit.node import Node
from gdrkit.rules.capabilities import Path
from gdrkit.verdict import judge_node
from gdrkit.verdict.node_state import consumer_state, nearest_pairs
from gdrkit.verdict.path_state import State
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
    unseen = [fact.becomes(UNKNOWN, far) for fact in (distance, below_one_switch)]
    assert counting(node.after("unseen", unseen)) == {*before, far}


def test_a_pair_of_other_host_bridges_is_no_nearer_than_a_numa_node(node):
    """Only its NUMA nodes are not known: it does not replace a NIC below the GPU's switch."""
    before = counting(node)
    (far, *_) = [pair for pair in pairs(node) if pair not in before]
    assert counting(node.after("unseen", [distance.becomes(UNKNOWN, far)])) == before


def near_of(node: Node, gpu: str) -> list[Pair]:
    return [pair for pair in counting(node) if pair.gpu == gpu]


def with_states(node: Node, **states: tuple[str, ...]) -> Node:
    """The node with other states of the ports of some devices."""
    changes = []
    for device, found in states.items():
        first = ports(node, device)[0]
        new = tuple(replace(first, number=n, state=state) for n, state in enumerate(found, 1))
        changes.append(ports.becomes(new, device))
    return node.after("other ports", changes)


@pytest.mark.parametrize(
    ("states", "counts"),
    [
        (("DOWN",), False),
        (("INIT",), False),
        (("ACTIVE",), True),
        (("DOWN", "ACTIVE"), True),
        (("DOWN", "INIT"), False),
        ((), False),
    ],
)
def test_of_two_equally_near_devices_one_without_an_active_port_does_not_count(node, states, counts):
    gpu = pairs(node)[0].gpu
    both = near_of(node, gpu)
    assert len(both) == 2
    one, other = sorted(both)
    assert sorted(near_of(with_states(node, **{one.device: states}), gpu)) == ([one] if counts else []) + [
        other
    ]


def test_if_all_of_the_nearest_are_down_they_count_and_no_farther_one_does(node):
    gpu = pairs(node)[0].gpu
    both = near_of(node, gpu)
    down = with_states(node, **{pair.device: ("DOWN",) for pair in both})
    assert near_of(down, gpu) == both


def test_a_device_whose_ports_were_not_read_counts_unless_another_is_known_to_work(node):
    gpu = pairs(node)[0].gpu
    both = near_of(node, gpu)
    for unread, left in ((both[:1], both[1:]), (both, both)):
        after = node.after("unread", [ports.becomes(UNKNOWN, pair.device) for pair in unread])
        assert near_of(after, gpu) == left


def test_without_any_distance_all_pairs_count(node):
    unseen = node.after("unseen", [distance.becomes(UNKNOWN, pair) for pair in pairs(node)])
    assert counting(unseen) == set(pairs(node))


@pytest.mark.parametrize(
    ("down", "state"),
    [((), State.READY), ((0,), State.UNKNOWN), ((1,), State.UNKNOWN), ((0, 1), State.UNKNOWN)],
)
def test_a_nic_at_an_unknown_distance_does_not_stand_for_one_that_is_down(down, state):
    """It may be the farther one. A NIC of another GPU does not count."""
    node = Node(open_host(str(laid_down("ubuntu-6.8-h100"))))
    gpu = pairs(node)[0].gpu
    nearest = near_of(node, gpu)
    unseen, *known = [pair for pair in pairs(node) if pair.gpu == gpu and pair not in nearest][:3]
    changed = node.after("unseen", [distance.becomes(UNKNOWN, unseen)])
    changed = with_states(changed, **{known[at].device: ("DOWN",) for at in down})
    table = judge_node(changed).matrix

    def state_of_gpu(seen):
        found = consumer_state(changed, {pair: table[pair] for pair in seen}, "verbs")
        return dict(zip([pair.gpu for pair in found.pairs], found.judgements, strict=True))[gpu].state

    assert state_of_gpu([unseen, *known]) is state
    others = [
        pair for pair in pairs(node) if pair.gpu != gpu and pair.device in (known[0].device, known[1].device)
    ]
    assert state_of_gpu([unseen, *others]) is State.READY


@pytest.mark.parametrize(
    ("down", "over_rdma"), [((), State.READY), ((0,), State.UNKNOWN), ((1,), State.UNKNOWN)]
)
def test_of_two_nics_at_unknown_distances_one_that_is_down_leaves_open_what_needs_a_nic(down, over_rdma):
    """Memory that NVLink carries to the other node passes none of them."""
    node = Node(open_host(str(laid_down("gb200-force-pcie"))))
    gpu = pairs(node)[0].gpu
    both = [pair for pair in pairs(node) if pair.gpu == gpu][:2]
    changed = node.after("unseen", [distance.becomes(UNKNOWN, pair) for pair in both])
    changed = with_states(changed, **{both[at].device: ("DOWN",) for at in down})
    table = judge_node(changed).matrix
    seen = {
        pair: tuple(replace(j, state=State.READY) if j.path == Path.NVLINK else j for j in table[pair])
        for pair in both
    }

    def state_for(consumer: str) -> State:
        (found,) = consumer_state(changed, seen, consumer).judgements
        return found.state

    assert (state_for("verbs"), state_for("mnnvl")) == (over_rdma, State.READY)


def test_what_is_blocked_stays_blocked_however_far_another_nic_may_be(node):
    """Only a ready path is in doubt where the nearest NIC may be another one."""
    gpu = pairs(node)[0].gpu
    unseen, known = [pair for pair in pairs(node) if pair.gpu == gpu][:2]
    changed = node.after("unseen", [distance.becomes(UNKNOWN, unseen)])
    changed = with_states(changed, **{unseen.device: ("DOWN",), known.device: ("DOWN",)})
    table = judge_node(changed).matrix
    found = consumer_state(changed, {pair: table[pair] for pair in (unseen, known)}, "verbs")
    (state,) = [
        judgement.state
        for pair, judgement in zip(found.pairs, found.judgements, strict=True)
        if pair.gpu == gpu
    ]
    assert state is State.BLOCKED
