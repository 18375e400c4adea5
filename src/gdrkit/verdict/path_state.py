"""One judgement: can this path serve this consumer on this pair, and what stops it?"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.consumers.consumer import Direction, Need
from gdrkit.consumers.table import cells_of
from gdrkit.evidence import Confidence, Missing
from gdrkit.node import Node
from gdrkit.rules.engine import CheckResult, confidence_of
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Passed, Unknown


class State(enum.StrEnum):
    """What a path is good for here."""

    ACTIVE = "active"  # seen in use
    READY = "ready"  # nothing blocks it
    UNKNOWN = "unknown"  # evidence is missing
    BLOCKED = "blocked"  # fixable; every blocker is listed
    IMPOSSIBLE = "impossible"  # nothing fixes this hardware


BEST_FIRST = (State.ACTIVE, State.READY, State.UNKNOWN, State.BLOCKED, State.IMPOSSIBLE)
"""Of several paths of one GPU, the best counts: an open question may still turn out well."""

WORST_FIRST = (State.BLOCKED, State.UNKNOWN, State.IMPOSSIBLE, State.READY, State.ACTIVE)
"""Of several GPUs, the worst counts: worst is what somebody must act on, then what somebody must look at."""


class PathState(Struct, frozen=True, kw_only=True):
    """The state of one path for one consumer in one direction."""

    path: str
    consumer: str
    direction: Direction
    state: State
    blocked_by: tuple[CheckResult, ...]
    open: tuple[CheckResult, ...]  # rules that could not be answered
    missing: tuple[Missing, ...]
    confidence: Confidence

    @property
    def first_broken_layer(self) -> Layer | None:
        return min((ruling.rule.layer for ruling in self.blocked_by), default=None)

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(ruling.rule.code for ruling in self.blocked_by))


def judge_path(
    node: Node, rulings: Iterable[CheckResult], path: str, consumer: str, direction: Direction
) -> PathState:
    """Put what the rules say of one path together.

    A permanent blocker is impossible; a blocker is blocked; a needed Missing is unknown; else ready.
    """
    blockers, open_questions, passed = [], [], []
    for ruling in rulings:
        if ruling.rule.direction not in ("both", direction):
            continue
        match ruling.outcome:
            case Failed() if would_block(ruling, path, consumer):
                blockers.append(ruling)
            case Unknown() if would_block(ruling, path, consumer):
                open_questions.append(ruling)
            case Passed() if would_block(ruling, path, consumer):
                passed.append(ruling)
            case _:
                pass
    blockers.sort(key=lambda ruling: ruling.rule.layer)
    permanent = [ruling for ruling in blockers if is_permanent(ruling, path, consumer)]
    # What would make an inference certain is worth naming only where the inference carries the state.
    lacking = open_questions or ([] if blockers else passed)
    missing = tuple(dict.fromkeys(m for ruling in lacking for m in _missing(ruling)))
    if permanent:
        state, confidence = State.IMPOSSIBLE, _surest(node, permanent)
    elif blockers:
        state, confidence = State.BLOCKED, _surest(node, blockers)
    else:
        state = State.UNKNOWN if open_questions else State.READY
        confidence = min({confidence_of(node, ruling) for ruling in passed}, default=Confidence.CERTAIN)
    return PathState(
        path=path,
        consumer=consumer,
        direction=direction,
        state=state,
        blocked_by=tuple(blockers),
        open=tuple(open_questions),
        missing=missing,
        confidence=confidence,
    )


def applies_to(ruling: CheckResult) -> tuple[Need, ...]:
    """What a ruling takes away, or would: it has a say in the cells that need any of it."""
    rule, outcome = ruling.rule, ruling.outcome
    if isinstance(outcome, NotApplicable):
        return ()
    if isinstance(outcome, Failed) and outcome.takes is not None:
        return outcome.takes
    return rule.takes(ruling.subject)


def would_block(ruling: CheckResult, path: str, consumer: str) -> bool:
    """Whether a ruling is about this path at all: its failure would block it."""
    return (path, consumer) in cells_of(applies_to(ruling))


def is_permanent(ruling: CheckResult, path: str, consumer: str) -> bool:
    """Whether no remedy can exist for what it found against this path."""
    outcome = ruling.outcome
    if not isinstance(outcome, Failed):
        return False
    gone = ruling.rule.permanent if outcome.permanent is None else outcome.permanent
    return (path, consumer) in cells_of(gone)


def _missing(ruling: CheckResult) -> tuple[Missing, ...]:
    match ruling.outcome:
        case Unknown(missing):
            return (missing,)
        case Passed(lacking=lacking):
            return lacking
        case _:
            return ()


def _surest(node: Node, blockers: list[CheckResult]) -> Confidence:
    """One certain blocker is enough; each is as certain as the weakest thing under it."""
    return max({confidence_of(node, ruling) for ruling in blockers})
