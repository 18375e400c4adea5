"""The state of a node, for each consumer: what somebody who waits wants to hear first."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.consumers.consumer import Fallback
from gdrkit.facts.gpu import is_integrated
from gdrkit.facts.pci import gpus
from gdrkit.facts.rdma import Pair, distance, ports
from gdrkit.node import Node, if_missing
from gdrkit.rules.rule import DIRECT, Layer
from gdrkit.verdict.matrix import Matrix
from gdrkit.verdict.path_state import BEST_FIRST, WORST_FIRST, PathState, State

NEAREST_FIRST = ("PIX", "PXB", "PHB", "NODE", "SYS")


class ConsumerState(Struct, frozen=True, kw_only=True):
    """A node for one consumer: the worst GPU, each by its best direct path at its nearest active port."""

    consumer: str
    state: State
    path: str  # the direct path that the state is about; "" for a program that has none
    first_broken_layer: Layer | None
    best_fallback: Fallback | None
    judgements: tuple[PathState, ...]  # the one that decided for each GPU
    pairs: tuple[Pair, ...]  # the pairs that they are about


def consumer_state(node: Node, table: Matrix, consumer: str) -> ConsumerState:
    """The state of the node for one consumer. Fallbacks never raise it; the best one is named beside it."""
    best = (_best_direct(table, here, consumer) for here in _by_gpu(node, table))
    chosen = [choice for choice in best if choice is not None]
    judgements = tuple(judgement for _, judgement in chosen)
    worst = min(judgements, key=lambda j: WORST_FIRST.index(j.state), default=None)
    state = worst.state if worst else State.IMPOSSIBLE
    broken = state in (State.BLOCKED, State.IMPOSSIBLE)
    return ConsumerState(
        consumer=consumer,
        state=state,
        path=worst.path if worst else "",
        first_broken_layer=worst.first_broken_layer if worst and broken else None,
        best_fallback=_best_fallback(node, table, consumer),
        judgements=judgements,
        pairs=tuple(pair for pair, _ in chosen if pair is not None),
    )


def nearest_pairs(node: Node, table: Matrix) -> tuple[Pair | None, ...]:
    """The pairs that have a say in the state of the node."""
    return tuple(pair for here in _by_gpu(node, table) for pair in here)


def _by_gpu(node: Node, table: Matrix) -> list[list[Pair | None]]:
    """For each GPU, its pairs at the nearest device whose ports are not all down."""
    groups: dict[str, list[Pair]] = {}
    for pair in table:
        if pair is not None:
            groups.setdefault(pair.gpu, []).append(pair)
    if not groups:
        return [[None]]
    return [_nearest(node, [p for p in here if not _is_down(node, p)] or here) for here in groups.values()]


def _nearest(node: Node, here: list[Pair]) -> list[Pair | None]:
    """The nearest, and those whose distance nobody knows: any of them may be nearer."""
    places = {pair: _place(node, pair) for pair in here}
    nearest = min((place for place in places.values() if place is not None), default=None)
    return [pair for pair in here if places[pair] in (nearest, None)]


def _place(node: Node, pair: Pair) -> int | None:
    return if_missing(None, lambda: NEAREST_FIRST.index(distance(node, pair)))


def _is_down(node: Node, pair: Pair) -> bool:
    """Whether none of the device's ports is active; what nobody could see may be."""
    return if_missing(False, lambda: all(port.state != "ACTIVE" for port in ports(node, pair.device)))


def _best_direct(
    table: Matrix, here: list[Pair | None], consumer: str
) -> tuple[Pair | None, PathState] | None:
    """The best direct judgement among a GPU's pairs; of a path's two directions, the worse counts. None for
    a program that has no direct path."""
    choices = []
    for pair in here:
        for path in DIRECT:
            both = [j for j in table[pair] if j.path == path and j.consumer == consumer]
            if not both:
                continue  # a path that this program does not have
            choices.append((pair, min(both, key=lambda j: WORST_FIRST.index(j.state))))
    return min(choices, key=lambda choice: BEST_FIRST.index(choice[1].state), default=None)


def _best_fallback(node: Node, table: Matrix, consumer: str) -> Fallback | None:
    """The best of the ways round. Sharing host memory is as good as direct on integrated GPUs only."""
    usable = {
        judgement.path
        for here in table.values()
        for judgement in here
        if judgement.consumer == consumer and judgement.state in (State.READY, State.ACTIVE)
    }
    order: tuple[Fallback, ...] = ("staged", "socket")
    if _all_integrated(node):
        order = ("host-mapped", *order)
    return next((path for path in order if path in usable), None)


def _all_integrated(node: Node) -> bool:
    return if_missing(False, lambda: all(is_integrated(node, gpu) for gpu in gpus(node)))
