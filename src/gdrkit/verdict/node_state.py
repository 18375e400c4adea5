"""The state of a node for each consumer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.catalogue import Code, consumer_of
from gdrkit.evidence import Missing, MissingReason
from gdrkit.facts.gpu import is_integrated
from gdrkit.facts.pci import PciGpu, gpus, root_bus
from gdrkit.facts.rdma import DISTANCES, Pair, below_one_switch, distance, nic_address, ports
from gdrkit.node import Node, fact, if_missing
from gdrkit.programs.names import NAMES
from gdrkit.rules.capabilities import WITHOUT_NIC, Fallback
from gdrkit.rules.rule import WIRE, Layer
from gdrkit.verdict.check_results import CheckResult
from gdrkit.verdict.initiated import Initiated, initiated
from gdrkit.verdict.matrix import Matrix
from gdrkit.verdict.path_state import BEST_FIRST, GOOD, WORST_FIRST, PathState, State, can_be_added


class ConsumerState(Struct, frozen=True, kw_only=True):
    """The state for one consumer: that of the worst GPU, each by its best direct path at its nearest NIC.

    A GPU that can never have a direct path counts only where none can: a display card beside an H100 does
    not make the node impossible."""

    consumer: str
    state: State
    path: str  # the direct path of that GPU; "" for a program without direct paths
    best_fallback: Fallback | None
    judgements: tuple[PathState, ...]  # for each GPU that counts, the one that decided
    pairs: tuple[Pair, ...]  # the pairs of these judgements
    initiated: Initiated | None = None  # None for a program whose GPU kernels start no transfers
    elsewhere: State | None = None  # of blocked GPUs, at the best NIC that is not their own

    @property
    def worst(self) -> PathState | None:
        """The judgement of the worst GPU; of several, one that has the cause."""
        return _worst(self.judgements)[0]

    @property
    def cause(self) -> CheckResult | None:
        """What stops the direct path; None unless it is blocked or impossible."""
        return _worst(self.judgements)[1]

    @property
    def first_broken_layer(self) -> Layer | None:
        return self.cause.rule.layer if self.cause else None


class StepOutcome(Struct, frozen=True):
    """The verdict on the node after a step: worst GPU, best path."""

    state: State
    blocked_by: tuple[Code, ...] = ()  # what the path that the steps are for still lacks; () unless blocked


def consumer_state(node: Node, table: Matrix, consumer: str, toward: str = "") -> ConsumerState:
    """The state of the node for one consumer. Fallbacks never improve it; `best_fallback` names the best.

    Of two paths with the same state, the one that lacks less decides, but before it the path `toward`."""
    best = (_best_direct(table, here, consumer, toward) for here in _by_gpu(node, table, consumer))
    found = [_unless_farther(node, table, *choice) for choice in best if choice is not None]
    chosen = [choice for choice in found if choice[1].state is not State.IMPOSSIBLE] or found
    judgements = tuple(judgement for _, judgement in chosen)
    worst, _ = _worst(judgements)
    state = worst.state if worst else State.IMPOSSIBLE
    blocked = [pair for pair, judgement in chosen if judgement.state is State.BLOCKED]
    return ConsumerState(
        consumer=consumer,
        state=state,
        path=worst.path if worst else "",
        best_fallback=_best_fallback(node, table, consumer),
        judgements=judgements,
        pairs=tuple(pair for pair, _ in chosen if pair is not None),
        initiated=initiated((table[pair] for pair, _ in chosen), consumer),
        elsewhere=_elsewhere(table, consumer, blocked) if blocked else None,
    )


def _elsewhere(table: Matrix, consumer: str, chosen: Iterable[Pair | None]) -> State | None:
    """The best state of a GPU at any NIC, as if none had to be its own; of several, the worst GPU's."""
    found = []
    for own in chosen:
        states = [State.BLOCKED]
        for pair, here in table.items():
            if pair is None or own is None or pair.gpu != own.gpu:
                continue
            for path in consumer_of(consumer).direct:
                both = [at_any_nic(j) for j in here if j.path == path and j.consumer == consumer]
                states.append(min(both, key=WORST_FIRST.index, default=State.BLOCKED))
        found.append(min(states, key=BEST_FIRST.index))
    return min(found, key=WORST_FIRST.index, default=None)


def at_any_nic(judgement: PathState) -> State:
    """The state without what says only that the GPU has no NIC of its own."""
    blockers = judgement.blocked_by
    others = [one for one in blockers if not isinstance(one.subject, PciGpu) or one.takes != (WIRE,)]
    if judgement.state is not State.BLOCKED or others:
        return judgement.state
    return State.UNKNOWN if judgement.open else State.READY


def _unless_farther(
    node: Node, table: Matrix, pair: Pair | None, judgement: PathState
) -> tuple[Pair | None, PathState]:
    """The judgement, but unknown if a NIC that is down may be nearer than this one, because the distance of
    either is not known: then that one is the GPU's own, and neither a farther NIC's readiness nor its
    distance says anything."""
    if pair is None or judgement.path in WITHOUT_NIC:
        return pair, judgement
    of_the_pair = judgement.cause is not None and isinstance(judgement.cause.subject, Pair)
    if judgement.state is not State.READY and not of_the_pair:
        return pair, judgement
    rank, known = distance_rank(node, pair)
    others = [other for other in table if other is not None and other.gpu == pair.gpu and other != pair]
    hidden = [other for other in others if is_down(node, other) and _may_be_nearer(node, other, rank, known)]
    if not hidden:
        return pair, judgement
    source = f"distance of {pair.gpu} and {pair.device}"
    missing = Missing(source, MissingReason.UNDECIDED, "nvidia-smi topo -m")
    open_state = replace(judgement, state=State.UNKNOWN, missing=(*judgement.missing, missing))
    return hidden[0] if of_the_pair else pair, replace(open_state, blocked_by=(), causes=())


def may_be_another(node: Node, table: Matrix, pair: Pair) -> bool:
    """Whether another device of the GPU, whose place is not known, may be nearer, and so be its own."""
    rank, _ = distance_rank(node, pair)
    others = (other for other in table if other is not None and other.gpu == pair.gpu and other != pair)
    return any(not sure and least < rank for least, sure in (distance_rank(node, other) for other in others))


def _may_be_nearer(node: Node, other: Pair, rank: int, known: bool) -> bool:
    """Whether a pair may be nearer than one of this rank, because one of the two ranks is only the least."""
    at_least, sure = distance_rank(node, other)
    return not known or (at_least < rank and not sure)


def _worst(judgements: tuple[PathState, ...]) -> tuple[PathState | None, CheckResult | None]:
    """The judgement of the worst GPU, and what stops it: of several, what stops most of them, by its code.

    A port that is down explains one GPU of a node whose driver is not loaded for any. Of problems that stop
    equally many, the one in the lowest layer counts."""
    worst = min((judgement.state for judgement in judgements), key=WORST_FIRST.index, default=None)
    found = [judgement for judgement in judgements if judgement.state is worst]
    stopped = Counter(code for judgement in found for code in {one.rule.code for one in judgement.causes})
    named = [(judgement, one) for judgement in found for one in judgement.causes]

    def order(choice: tuple[PathState, CheckResult]) -> tuple[int, bool, int]:
        rule = choice[1].rule
        added = worst is State.IMPOSSIBLE and can_be_added(choice[1])
        return -stopped[rule.code], added, rule.layer.rank

    first = next(iter(found), None)
    return min(named, key=order, default=(first, None))


def nearest_pairs(node: Node, table: Matrix, consumer: str = NAMES[0]) -> tuple[Pair | None, ...]:
    """The pairs that determine the state of the node for a consumer, the first one if none is named."""
    return tuple(pair for here in _by_gpu(node, table, consumer) for pair in here)


def _by_gpu(node: Node, table: Matrix, consumer: str) -> list[list[Pair | None]]:
    """For each GPU, its pairs with the nearest devices, of those at which this consumer is judged; without
    those that are down if others are equally near.

    If all of the nearest are down, that is what the GPU lacks: the next device, which is farther away and
    belongs to another GPU, does not replace them."""
    groups: dict[str, list[Pair]] = {}
    for pair, here in table.items():
        if pair is not None and any(judgement.consumer == consumer for judgement in here):
            groups.setdefault(pair.gpu, []).append(pair)
    if not groups:
        return [[None]]
    return [_nearest(node, here) for here in groups.values()]


def _nearest(node: Node, here: list[Pair]) -> list[Pair | None]:
    """The nearest pairs, and those of unknown distance that may be as near: the ones that are known to
    work, else the ones that may."""
    ranks = {pair: distance_rank(node, pair) for pair in here}
    nearest = min((rank for rank, known in ranks.values() if known), default=len(DISTANCES))
    near = [pair for pair in here if ranks[pair][0] <= nearest]
    working = [pair for pair in near if not is_down(node, pair)]
    return [*(pair for pair in working if _is_up(node, pair))] or [*working] or [*near]


@fact
def is_down(node: Node, pair: Pair) -> bool:
    """Whether none of the device's ports is active, or it does not answer; unknown counts as working."""
    if not pair.device:
        return False
    from gdrkit.facts.pci_registers import answers  # for nodes with pairs

    return if_missing(
        False, lambda: all(port.state != "ACTIVE" for port in ports(node, pair.device))
    ) or not if_missing(True, lambda: answers(node, nic_address(node, pair.device)))


def _is_up(node: Node, pair: Pair) -> bool:
    """Whether one of the device's ports is known to be active."""
    return if_missing(False, lambda: any(port.state == "ACTIVE" for port in ports(node, pair.device)))


@fact
def distance_rank(node: Node, pair: Pair) -> tuple[int, bool]:
    """The place of a pair's distance in DISTANCES, and True; if it is not known, the nearest that it may be,
    and False."""
    if not pair.device:
        return 0, False
    found = if_missing(None, lambda: DISTANCES.index(distance(node, pair)))
    if found is not None:
        return found, True
    return (DISTANCES.index("NODE") if if_missing(False, _is_apart, node, pair) else 0), False


def _is_apart(node: Node, pair: Pair) -> bool:
    """Whether GPU and NIC are below different host bridges: only their NUMA nodes are in question."""
    nic = nic_address(node, pair.device)
    return not below_one_switch(node, pair) and root_bus(node, pair.gpu) != root_bus(node, nic)


def _best_direct(
    table: Matrix, here: list[Pair | None], consumer: str, toward: str
) -> tuple[Pair | None, PathState] | None:
    """The best direct path among a GPU's pairs, where the worse of two directions counts; None for a program
    that has no direct path. Of several paths that are blocked, the best is the one that lacks least."""
    choices = []
    for pair in here:
        for path in consumer_of(consumer).direct:
            both = [j for j in table[pair] if j.path == path and j.consumer == consumer]
            if both:  # else this program does not have this path
                choices.append((pair, min(both, key=lambda j: WORST_FIRST.index(j.state))))
    return min(choices, key=lambda choice: _rank(choice, toward), default=None)


def _rank(choice: tuple[Pair | None, PathState], toward: str) -> tuple[int, bool, int, int]:
    """The state, then the path, then how many problems, then how many of them have no remedy.

    What stops the loading of a module is one problem, however many rules name it, and whoever loads it: that
    it is not loaded follows. So is what the same first remedy cures: without the API, its symbols are
    missing."""
    judgement = choice[1]
    rules = {result.rule.code: result.rule for result in judgement.blocked_by}.values()
    loading = [rule for rule in rules if rule.about_loading]
    cured = {rule.remedies[0] for rule in loading if rule.remedies}
    alone = [rule for rule in rules if not rule.about_loading and not cured.intersection(rule.remedies[:1])]
    problems = len(alone) + bool(loading)
    without_remedy = sum(not rule.remedies for rule in rules)
    return BEST_FIRST.index(judgement.state), judgement.path != toward, problems, without_remedy


def _best_fallback(node: Node, table: Matrix, consumer: str) -> Fallback | None:
    """The best usable fallback; None if a better one may be. Mapped host memory is as good as direct on
    integrated GPUs only."""
    usable, open_ = (
        {j.path for here in table.values() for j in here if j.consumer == consumer and j.state in states}
        for states in (GOOD, (State.UNKNOWN,))
    )
    order: tuple[Fallback, ...] = ("staged", "socket")
    if _all_integrated(node):
        order = ("host-mapped", *order)
    best = next((path for path in order if path in usable or path in open_), None)
    return best if best in usable else None


def _all_integrated(node: Node) -> bool:
    return if_missing(False, lambda: all(is_integrated(node, gpu) for gpu in gpus(node)))
