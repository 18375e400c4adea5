"""What the node itself does to the pairs of its topology: by driver, kernel and libraries, as gdr doctor
judges them for a program without a topology of its own."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.fabric.nccl.nic import peermem
from gdrkit.fabric.nccl.view import DirectionView, nic_evidence
from gdrkit.fabric.topo_pairs import TopoPair
from gdrkit.facts.nvlink import has_nvlink
from gdrkit.facts.pci import gpu_at
from gdrkit.facts.rdma import Pair, pairs
from gdrkit.node import Node, if_missing
from gdrkit.programs.nccl.releases import release
from gdrkit.programs.verbs.consumer import VERBS
from gdrkit.rules.capabilities import Path
from gdrkit.verdict.called_for import rules_called_for
from gdrkit.verdict.matrix import path_states_of_pairs
from gdrkit.verdict.node_state import at_any_nic
from gdrkit.verdict.path_state import BEST_FIRST, PathState, State


class NodeSays(Struct, frozen=True):
    """The state of a pair in one direction, and the codes of the findings behind it."""

    state: State
    codes: tuple[str, ...] = ()


ByPair = Mapping[Pair, tuple[PathState, ...]]


def judged_pairs(node: Node, version: str) -> ByPair:
    """The states of each pair's direct paths for libibverbs, which no setting of NCCL changes; without
    nvidia-peermem where this NCCL does not find it."""
    rules = release(version)
    paths = set(VERBS.direct)
    if peermem(rules, nic_evidence(node, rules)).works is False:
        paths.discard(Path.PEERMEM)
    found = if_missing((), pairs, node)
    table = path_states_of_pairs(node, rules_called_for(node), found, VERBS.name)
    return {
        pair: tuple(one for one in states if one.path in paths)
        for pair, states in table.items()
        if pair is not None
    }


def with_verdict(pair: TopoPair, device: str, states: ByPair) -> TopoPair:
    """The pair, with "no" for a direction that the node blocks, and None for one that it leaves open: NCCL's
    own tests do not look at that."""
    here = states.get(Pair(pair.gpu, device), ())
    says = {way: _best(here, way) for way in ("send", "receive")}
    undecided = {
        code: None
        for way, view in (("send", pair.send), ("receive", pair.receive))
        if says[way].state is State.UNKNOWN and (view is None or view.direct)
        for code in says[way].codes
    }
    return replace(
        pair,
        send=_gated(pair.send, says["send"]),
        receive=_gated(pair.receive, says["receive"]),
        undecided=tuple(undecided),
    )


def _best(here: tuple[PathState, ...], way: str) -> NodeSays:
    """The best direct path in one direction. That a GPU has no NIC of its own does not count: the tree shows
    the distance."""
    states = [(at_any_nic(one), one) for one in here if one.direction in ("both", way)]
    if not states:
        return NodeSays(State.READY)
    state, best = min(states, key=lambda one: BEST_FIRST.index(one[0]))
    by = best.causes if state in (State.BLOCKED, State.IMPOSSIBLE) else best.open
    return NodeSays(state, tuple(dict.fromkeys(result.rule.code for result in by)))


def _gated(view: DirectionView | None, says: NodeSays) -> DirectionView | None:
    if view is not None and not view.direct:
        return view
    if says.state is State.UNKNOWN:
        return None
    if says.state in (State.BLOCKED, State.IMPOSSIBLE):
        return DirectionView(False, f"gdr doctor finds {says.codes[0]}")
    return view


def has_nvlink_to_another(node: Node, gpu: str) -> bool:
    """Whether the GPU of this address has NVLink to another one, by the driver or by its product."""
    found = if_missing(None, gpu_at, node, gpu)
    return found is not None and if_missing(False, has_nvlink, node, found)
