"""The state of one path for one consumer on one pair, and what blocks it."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.evidence import Confidence, Missing
from gdrkit.node import Node
from gdrkit.rules.capabilities import Direction
from gdrkit.rules.rule import WIRE, Failed, Layer, Passed, Unknown
from gdrkit.verdict.cells import cells_of
from gdrkit.verdict.check_results import CheckResult, confidence_of


class State(enum.StrEnum):
    """Whether a path can be used."""

    ACTIVE = "active"  # seen in use
    READY = "ready"  # nothing blocks it
    UNKNOWN = "unknown"  # evidence is missing
    BLOCKED = "blocked"  # fixable; every blocker is listed
    IMPOSSIBLE = "impossible"  # no remedy exists on this hardware


GOOD = (State.ACTIVE, State.READY)
"""States in which nothing needs to be done."""

BEST_FIRST = (State.ACTIVE, State.READY, State.UNKNOWN, State.BLOCKED, State.IMPOSSIBLE)
"""Of several paths of one GPU, the best counts: an unknown one may turn out to be ready."""

WORST_FIRST = (State.BLOCKED, State.UNKNOWN, State.IMPOSSIBLE, State.READY, State.ACTIVE)
"""Of several GPUs, the worst counts: first what has to be fixed, then what has to be investigated."""


class PathState(Struct, frozen=True, kw_only=True):
    """The state of one path for one consumer in one direction."""

    path: str
    consumer: str
    direction: Direction
    state: State
    blocked_by: tuple[CheckResult, ...]  # the lowest layer first
    causes: tuple[CheckResult, ...]  # those that may be named: the permanent ones, if there are any
    open: tuple[CheckResult, ...]  # results that are unknown
    missing: tuple[Missing, ...]
    confidence: Confidence

    @property
    def cause(self) -> CheckResult | None:
        """The blocker to name first; None if nothing blocks the path."""
        return next(iter(self.causes), None)

    @property
    def first_broken_layer(self) -> Layer | None:
        return self.cause.rule.layer if self.cause else None

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(result.rule.code for result in self.blocked_by))


def judge_path(
    node: Node, results: Iterable[CheckResult], path: str, consumer: str, direction: Direction
) -> PathState:
    """The state of one path from the results that apply to its cell, in one direction or both.

    Impossible if a blocker is permanent, else blocked if there is one, else unknown if evidence is missing,
    else ready.
    """
    blockers, open_questions, passed = [], [], []
    for result in results:
        if result.rule.direction not in ("both", direction):
            continue
        match result.outcome:
            case Failed():
                blockers.append(result)
            case Unknown():
                open_questions.append(result)
            case Passed():
                passed.append(result)
            case _:
                pass
    blockers.sort(key=lambda result: result.rule.layer)
    permanent = [result for result in blockers if is_permanent(result, path, consumer)]
    # Evidence that would make an inference certain matters only if the state depends on that inference.
    incomplete = open_questions or ([] if blockers else passed)
    missing = tuple(dict.fromkeys(m for result in incomplete for m in _missing(result)))
    if permanent:
        state, confidence = State.IMPOSSIBLE, _surest(node, permanent)
    elif blockers:
        state, confidence = State.BLOCKED, _surest(node, blockers)
    else:
        state = State.UNKNOWN if open_questions else State.READY
        confidence = min({confidence_of(node, result) for result in passed}, default=Confidence.CERTAIN)
    return PathState(
        path=path,
        consumer=consumer,
        direction=direction,
        state=state,
        blocked_by=tuple(blockers),
        causes=tuple(sorted(permanent, key=can_be_added)) if permanent else tuple(blockers),
        open=tuple(open_questions),
        missing=missing,
        confidence=confidence,
    )


def can_be_added(result: CheckResult) -> bool:
    """Whether only a NIC is missing, which matters less than what the machine can never do."""
    return WIRE in result.rule.permanent


def would_block(result: CheckResult, path: str, consumer: str) -> bool:
    """Whether a failure of this rule would block this path."""
    return (path, consumer) in cells_of(result.takes)


def is_permanent(result: CheckResult, path: str, consumer: str) -> bool:
    """Whether the failure blocks this path and no remedy can exist for it."""
    outcome = result.outcome
    if not isinstance(outcome, Failed):
        return False
    gone = result.rule.permanent if outcome.permanent is None else outcome.permanent
    return (path, consumer) in cells_of(gone)


def _missing(result: CheckResult) -> tuple[Missing, ...]:
    match result.outcome:
        case Unknown(missing):
            return (missing,)
        case Passed(lacking=lacking):
            return lacking
        case _:
            return ()


def _surest(node: Node, blockers: list[CheckResult]) -> Confidence:
    """The confidence of the most certain blocker: one is enough."""
    return max({confidence_of(node, result) for result in blockers})
