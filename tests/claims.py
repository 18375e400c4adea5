"""What a verdict claims, and which claims less evidence may not add."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats.module_name import canonical
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Status
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.node_state import nearest_pairs
from gdrkit.verdict.path_state import State
from tests.hiding_host import HidingHost


class ConsumerClaim(Struct, frozen=True):
    """The state for one consumer, the code that is named as its cause, and all that block it."""

    state: State
    cause: str
    blocked_by: frozenset[str]
    may_be_permanent: bool  # a code that no remedy restores is open


class Claims(Struct, frozen=True):
    """All that a verdict says is wrong."""

    failed: frozenset[tuple[str, str]]  # codes with their subjects, whatever their status
    open: frozenset[tuple[str, str]]
    consumers: dict[str, ConsumerClaim]
    as_near: frozenset[tuple[str, str]] = frozenset()  # codes of pairs as near as the one that is shown


def claims(host: HidingHost) -> Claims:
    """The claims of the verdict on the node that a host shows."""
    node = Node(host)
    verdict = judge_node(node)
    failed, unknown = set(), set()
    for finding in verdict.findings:  # what is shown: of pairs that are farther than the GPU's own, nothing
        shown = unknown if finding.status is Status.UNKNOWN else failed
        shown.add((finding.code, _subject(finding.subject)))
    return Claims(
        frozenset(failed),
        frozenset(unknown),
        {
            state.consumer: ConsumerClaim(
                state.state,
                state.cause.rule.code if state.cause else "",
                frozenset(state.worst.codes if state.worst else ()),
                state.worst is not None and any(result.rule.permanent for result in state.worst.open),
            )
            for state in verdict.states
        },
        frozenset(_of_nearest_pairs(node, verdict)),
    )


def _of_nearest_pairs(node: Node, verdict: Verdict) -> Iterator[tuple[str, str]]:
    """What fails at the nearest devices of each GPU, of which findings show one."""
    nearest = nearest_pairs(node, verdict.matrix)
    for result in verdict.check_results:
        if isinstance(result.outcome, Failed) and result.subject in nearest:
            yield result.rule.code, _subject(result.outcome.subject)


def _subject(name: str) -> str:
    """A subject by which two findings are compared: a module by its name, whatever the name of its file, and
    a library as one, whether its file or its package was seen."""
    if name.startswith("package ") or ".so" in name:
        return "library"
    module = canonical(name.split(".ko", 1)[0])
    return "nvidia_peermem" if module.endswith("_peermem") else module


def offences(whole: Claims, less: Claims) -> Iterator[str]:
    """What the verdict on a part of the evidence claims without a right to, one line each."""
    codes = {code for code, _ in whole.failed}
    open_codes = {code for code, _ in whole.open}
    for code, subject in sorted(less.failed - whole.failed - whole.as_near):
        if code not in open_codes:
            yield f"{code} of {subject or 'the node'} appears"
    for consumer, now in less.consumers.items():
        before = whole.consumers[consumer]
        if now.state not in _allowed(before, now):
            yield f"{consumer}: {before.state} becomes {now.state}"
        if now.cause not in codes | open_codes | {""}:
            yield f"{consumer}: {now.cause} is named as the cause"
        if before.state is State.IMPOSSIBLE and now.state is State.BLOCKED:
            for code in sorted(now.blocked_by - codes):
                yield f"{consumer}: blocked by {code} alone"


def _allowed(before: ConsumerClaim, now: ConsumerClaim) -> tuple[State, ...]:
    """The states that less evidence may lead to. Where what is permanent is not known any more, what is left
    to fix remains."""
    if before.state is State.IMPOSSIBLE and now.may_be_permanent:
        return State.IMPOSSIBLE, State.UNKNOWN, State.BLOCKED
    return before.state, State.UNKNOWN
