"""What then? and the plan: two answers.

*What then* follows the order of the kernel, takes the step that each failure tempts to, and may end badly.
The *plan* is a search that holds only steps ending in ready. Nobody automates a dead end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.consumers.table import consumer_of
from gdrkit.evidence import MissingReason
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.rdma import Pair
from gdrkit.loader import Prediction, modprobe
from gdrkit.node import Node, Supposition, each_known, if_missing
from gdrkit.repair.remedies import BY_NAME
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules import LOAD_ORDER, RULES, Code
from gdrkit.rules.engine import CheckResult
from gdrkit.rules.rule import Unknown
from gdrkit.verdict import Verdict
from gdrkit.verdict.matrix import Matrix, judge_pairs
from gdrkit.verdict.node_state import ConsumerState, consumer_state, nearest_pairs
from gdrkit.verdict.path_state import PathState, State

STEPS_AT_MOST = 5
"""A way of more steps than this is a reinstallation, and the search stays small."""

GOOD = (State.READY, State.ACTIVE)


class StepOutcome(Struct, frozen=True):
    """What is true of the path (or, in a plan, of the node) once a step is taken."""

    state: State
    blocked_by: tuple[Code, ...] = ()


class PlannedStep(Struct, frozen=True):
    """One step, and where it leads."""

    remedy: Remedy
    then: StepOutcome
    modprobe: Prediction | None  # where the step bears on whether nvidia-peermem loads


Chain = tuple[PlannedStep, ...]


def what_then(node: Node, verdict: Verdict, consumer: str) -> tuple[Chain, ...]:
    """For each direct path that does not work: each tempting step, and where it leads, to the bitter end."""
    pair = next(iter(verdict.of(consumer).pairs), None)
    chains = []
    for path in consumer_of(consumer).direct:
        if (chain := tuple(_follow(node, verdict, pair, path, consumer))) and chain not in chains:
            chains.append(chain)
    return tuple(chains)


def _follow(
    node: Node, verdict: Verdict, pair: Pair | None, path: str, consumer: str
) -> Iterator[PlannedStep]:
    taken: list[Remedy] = []
    judgement = _worst(verdict.matrix, pair, path, consumer)
    while judgement.state not in GOOD:
        choice = next(_choices(node, _in_kernel_order(judgement), taken, path), None)
        if choice is None:
            return
        remedy, changes = choice
        node = node.after(remedy.name, changes)
        taken.append(remedy)
        judgement = _worst(judge_pairs(node, RULES, (pair,), consumer), pair, path, consumer)
        prediction = predicted(node) if path == "peermem" else None
        yield PlannedStep(remedy, StepOutcome(judgement.state, judgement.codes), prediction)


def predicted(node: Node) -> Prediction | None:
    """What modprobe would say of nvidia-peermem; None where not even that can be told."""
    return if_missing(None, modprobe, node, PEERMEM)


def _worst(table: Matrix, pair: Pair | None, path: str, consumer: str) -> PathState:
    """Of a path's two directions the one that has more against it."""
    both = [j for j in table[pair] if j.path == path and j.consumer == consumer]
    return max(both, key=lambda j: (len(j.blocked_by), len(j.open)))


def _in_kernel_order(judgement: PathState) -> list[CheckResult]:
    """What blocks, as somebody would run into it: first what stops the loading, in the kernel's order."""
    order = {rule.code: place for place, rule in enumerate(LOAD_ORDER)}
    blocking = sorted(judgement.blocked_by, key=lambda r: order.get(r.rule.code, len(order)))
    return [*blocking, *(ruling for ruling in judgement.open if _is_stale(ruling))]


def _is_stale(ruling: CheckResult) -> bool:
    """Whether a step taken before made it uncertain: what it may need next is part of the way."""
    return isinstance(ruling.outcome, Unknown) and ruling.outcome.missing.why is MissingReason.STALE


def _choices(
    node: Node, rulings: list[CheckResult], taken: list[Remedy], path: str
) -> Iterator[tuple[Remedy, tuple[Supposition, ...]]]:
    """The steps that would cure one of these, on this path, and are to be had here."""
    named = (BY_NAME[name] for ruling in rulings for name in ruling.rule.remedies)
    fitting = (remedy for remedy in named if path in remedy.paths and remedy not in taken)
    return each_known(lambda remedy: (remedy, tuple(remedy.effect(node))), fitting)


def plan(node: Node, verdict: Verdict, consumer: str) -> tuple[Chain, ...]:
    """The shortest ways from blocked to ready, for each direct path one; none where there is none.

    A step's state is the node's: worst GPU, best path. Nothing is planned for a node that works.
    """
    if verdict.of(consumer).state is not State.BLOCKED:
        return ()
    ways = [way for path in consumer_of(consumer).direct if (way := _search(node, verdict, consumer, path))]
    return tuple(sorted(ways, key=len))


def _search(node: Node, verdict: Verdict, consumer: str, path: str) -> Chain:
    """Breadth first, over the steps that cure something that blocks this path at a GPU's chosen pair."""
    pairs = nearest_pairs(node, verdict.matrix)  # a step moves no device: they stay the nearest
    queue: deque[tuple[Node, Matrix, ConsumerState, Chain]] = deque()
    queue.append((node, verdict.matrix, verdict.of(consumer), ()))
    seen: set[frozenset[str]] = set()
    while queue:
        here, table, state, chain = queue.popleft()
        taken = [step.remedy for step in chain]
        for remedy, changes in _choices(here, _obstacles(table, state, path), taken, path):
            key = frozenset((*(step.name for step in taken), remedy.name))
            if key in seen:
                continue
            seen.add(key)
            after = here.after(remedy.name, changes)
            judged = judge_pairs(after, RULES, pairs, consumer)
            then = consumer_state(after, judged, consumer)
            still = [_worst(judged, pair, path, consumer) for pair in then.pairs or (None,)]
            codes = tuple(dict.fromkeys(code for judgement in still for code in judgement.codes))
            way = (*chain, PlannedStep(remedy, StepOutcome(then.state, codes), None))
            if then.state in GOOD:
                return way
            if len(way) < STEPS_AT_MOST:
                queue.append((after, judged, then, way))
    return ()


def _obstacles(table: Matrix, state: ConsumerState, path: str) -> list[CheckResult]:
    """What stands in the way at every GPU's chosen pair; nothing where one of them can never be cured."""
    judgements = [_worst(table, pair, path, state.consumer) for pair in state.pairs or (None,)]
    if any(judgement.state is State.IMPOSSIBLE for judgement in judgements):
        return []
    return list(dict.fromkeys(ruling for j in judgements for ruling in _in_kernel_order(j)))
