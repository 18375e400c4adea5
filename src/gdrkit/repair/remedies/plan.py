"""Two answers to what a remedy leads to: *what then* and the *plan*.

*What then* follows the kernel's order, takes the obvious step at each failure, and may end without a direct
path. The *plan* is a search whose results all end in ready, so that no dead end is automated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.catalogue import consumer_of, every_rule
from gdrkit.evidence import MissingReason
from gdrkit.facts.rdma import Pair
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.node import Node, Supposition, each_known, if_missing
from gdrkit.repair.platforms.means import can_do
from gdrkit.repair.remedies import remedy_of
from gdrkit.repair.remedies.remedy import Remedy, needs_signing, standing
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Unknown
from gdrkit.verdict import Verdict
from gdrkit.verdict.check_results import CheckResult
from gdrkit.verdict.matrix import Matrix, path_states_of_pairs
from gdrkit.verdict.node_state import ConsumerState, StepOutcome, consumer_state, nearest_pairs
from gdrkit.verdict.path_state import GOOD, PathState, State
from gdrkit.verdict.prediction import predicted

if TYPE_CHECKING:
    from gdrkit.loader import Prediction

STEPS_AT_MOST = 5
"""Keeps the search small; a plan with more steps than this amounts to a reinstallation."""


class PlannedStep(Struct, frozen=True):
    """One step, and what it leads to."""

    remedy: Remedy
    path: str  # which the steps are for
    then: StepOutcome
    modprobe: Prediction | None  # None unless the step affects whether nvidia-peermem loads


Chain = tuple[PlannedStep, ...]


def what_then(node: Node, verdict: Verdict, consumer: str) -> tuple[Chain, ...]:
    """For each direct path of a node without one: the obvious steps in order, each with what it leads to.

    Empty for a node that needs no fix, or whose verdict is unknown; and where something that no remedy
    cures, such as a port that is down, blocks every path: no step would change the verdict."""
    state = verdict.of(consumer)
    if state.state not in (State.BLOCKED, State.IMPOSSIBLE):
        return ()
    if state.state is State.BLOCKED and _blocks_every_path(verdict.matrix, state):
        return ()
    chains = (tuple(_follow(node, verdict, consumer, path)) for path in consumer_of(consumer).direct)
    return _distinct(chain for chain in chains if chain)


def _blocks_every_path(table: Matrix, state: ConsumerState) -> bool:
    """Whether all paths of a GPU have a blocker in common that has no remedy."""
    for pair in state.pairs or (None,):
        paths = [_worst(table, (pair,), path, state.consumer) for path in consumer_of(state.consumer).direct]
        common = set.intersection(*(set(judgement.blocked_by) for judgement in paths))
        if any(not result.rule.remedies for result in common):
            return True
    return False


def _follow(node: Node, verdict: Verdict, consumer: str, path: str) -> Iterator[PlannedStep]:
    # No step moves a device, so these stay the nearest.
    pairs = nearest_pairs(node, verdict.matrix, consumer)
    taken: list[Remedy] = []
    table, state = verdict.matrix, verdict.of(consumer)
    while state.state not in GOOD:
        judgement = _worst(table, state.pairs or (None,), path, consumer)
        choice = next(_choices(node, _in_kernel_order(judgement), taken, path), None)
        if choice is None:
            return
        remedy, changes = choice
        node = node.after(remedy.name, changes)
        taken.append(remedy)
        table = path_states_of_pairs(node, every_rule(), pairs, consumer)
        state = consumer_state(node, table, consumer)
        prediction = predicted(node) if path == "peermem" else None
        yield PlannedStep(remedy, path, _outcome(table, state, path), prediction)


def _outcome(table: Matrix, state: ConsumerState, path: str) -> StepOutcome:
    """The verdict, and what this path still lacks at the pairs that decided."""
    if state.state not in (State.BLOCKED, State.IMPOSSIBLE):
        return StepOutcome(state.state)
    left = (_worst(table, (pair,), path, state.consumer) for pair in state.pairs or (None,))
    return StepOutcome(state.state, tuple(dict.fromkeys(code for j in left for code in j.codes)))


def _distinct(chains: Iterable[Chain]) -> tuple[Chain, ...]:
    """The chains, without those that take every step of an earlier one."""
    kept: list[Chain] = []
    for chain in chains:
        steps = _names(chain)
        if not any(_names(other) <= steps for other in kept):
            kept.append(chain)
    return tuple(kept)


def _names(chain: Chain) -> set[str]:
    return {step.remedy.name for step in chain}


def _worst(table: Matrix, pairs: Iterable[Pair | None], path: str, consumer: str) -> PathState:
    """Of a path's states at these pairs, in both directions, the one with most blockers, then unknowns."""
    judgements = (j for pair in pairs for j in table[pair] if j.path == path and j.consumer == consumer)
    return max(judgements, key=lambda j: (len(j.blocked_by), len(j.open)))


def _in_kernel_order(judgement: PathState) -> list[CheckResult]:
    """The blockers and the stale unknowns: first those that stop the loading, in the kernel's order."""
    results = [*judgement.blocked_by, *(result for result in judgement.open if _is_stale(result))]
    return sorted(results, key=lambda result: (result.rule.loading is None, result.rule.loading))


def _is_stale(result: CheckResult) -> bool:
    """Whether an earlier step made it uncertain: its remedies may be the next step."""
    return isinstance(result.outcome, Unknown) and result.outcome.missing.why is MissingReason.STALE


def _choices(
    node: Node, results: list[CheckResult], taken: list[Remedy], path: str
) -> Iterator[tuple[Remedy, tuple[Supposition, ...]]]:
    """The remedies for these results that serve this path and are possible on this node."""
    names = [name for result in results for name in result.rule.remedies]
    if needs_signing(taken) and if_missing(False, signatures_needed, node):
        names.insert(0, RemedyName.SIGN_MODULE)
    named = map(remedy_of, dict.fromkeys(names))
    done = standing(taken)
    able = (remedy for remedy in named if path in remedy.paths and can_do(node, remedy))
    fitting = (remedy for remedy in able if remedy not in done)
    return each_known(lambda remedy: (remedy, tuple(remedy.effect(node))), fitting)


def plan(node: Node, verdict: Verdict, consumer: str) -> tuple[Chain, ...]:
    """The shortest plans from blocked to ready: at most one for each direct path, first one that replaces no
    driver, then the shortest, of two equally long ones that with fewer reboots, then that for the path that
    lacks less.

    Empty for a node that is not blocked.
    """
    state = verdict.of(consumer)
    if state.state is not State.BLOCKED:
        return ()
    chains = (_search(node, verdict, consumer, path) for path in consumer_of(consumer).direct)
    return _distinct(
        sorted((chain for chain in chains if chain), key=lambda chain: _effort(chain, state.path))
    )


def _effort(chain: Chain, path: str) -> tuple[bool, int, int, bool]:
    builds = any(step.remedy.drops_signatures for step in chain)  # other modules than those that were tested
    return builds, len(chain), sum(step.remedy.needs_reboot for step in chain), chain[0].path != path


def explained(node: Node, verdict: Verdict, consumer: str, plans: tuple[Chain, ...]) -> Verdict:
    """The verdict as it is shown with its plans: a cause with other remedies than those of the first plan
    would not explain it. Then the path that this plan opens decides, although another one lacks less. A
    cause that no remedy cures here stays: the plan goes around it."""
    state = verdict.of(consumer)
    causes = [state.cause] if state.cause else []
    possible = {remedy.name for remedy, _ in _choices(node, causes, [], state.path)}
    if not plans or not possible or {step.remedy.name for step in plans[0]} & possible:
        return verdict
    return verdict.toward(node, consumer, plans[0][0].path)


def _search(node: Node, verdict: Verdict, consumer: str, path: str) -> Chain:
    """A breadth-first search over remedies for what blocks this path at the GPUs' chosen pairs."""
    # No step moves a device, so these stay the nearest.
    pairs = nearest_pairs(node, verdict.matrix, consumer)
    queue: deque[tuple[Node, Matrix, ConsumerState, Chain]] = deque()
    queue.append((node, verdict.matrix, verdict.of(consumer), ()))
    seen: set[tuple[str, ...]] = set()
    while queue:
        here, table, state, chain = queue.popleft()
        taken = [step.remedy for step in chain]
        choices = _choices(here, _obstacles(table, state, path), taken, path)
        for remedy, changes in untried(choices, taken, seen):
            after = here.after(remedy.name, changes)
            judged = path_states_of_pairs(after, every_rule(), pairs, consumer)
            then = consumer_state(after, judged, consumer)
            longer = (*chain, PlannedStep(remedy, path, _outcome(judged, then, path), None))
            if then.state in GOOD:
                return longer
            if len(longer) < STEPS_AT_MOST:
                queue.append((after, judged, then, longer))
    return ()


Choice = tuple[Remedy, tuple[Supposition, ...]]


def untried(
    choices: Iterable[Choice], taken: Iterable[Remedy], seen: set[tuple[str, ...]]
) -> Iterator[Choice]:
    """The choices that make steps that were not seen yet: their order makes no other node."""
    for remedy, changes in choices:
        key = tuple(sorted(step.name for step in (*taken, remedy)))  # a step may occur twice
        if key not in seen:
            seen.add(key)
            yield remedy, changes


def _obstacles(table: Matrix, state: ConsumerState, path: str) -> list[CheckResult]:
    """What blocks the path at the GPUs' chosen pairs; nothing if it is impossible at one of them."""
    judgements = [_worst(table, (pair,), path, state.consumer) for pair in state.pairs or (None,)]
    if any(judgement.state is State.IMPOSSIBLE for judgement in judgements):
        return []
    return list(dict.fromkeys(result for j in judgements for result in _in_kernel_order(j)))
