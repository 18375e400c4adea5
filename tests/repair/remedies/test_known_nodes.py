"""What every remedy supposes, and what is planned, on every node in tests/evidence, as it was reviewed.

Equal effects of one remedy are listed once, with the nodes."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pytest

from gdrkit.evidence import EvidenceMissing, Missing
from gdrkit.evidence.target import open_host
from gdrkit.node import Node, Supposition
from gdrkit.programs.names import NAMES
from gdrkit.repair.remedies import every_remedy
from gdrkit.repair.remedies.loading_plan import loading_plan
from gdrkit.repair.remedies.plan import Chain, plan, what_then
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.verdict import Verdict, judge_node
from tests.evidence_nodes import laid_down, names
from tests.known_answers import prediction_text
from tests.repair.remedies.test_pairs import DERIVED


@functools.cache
def judged(name: str) -> tuple[Node, Verdict]:
    node = Node(open_host(str(laid_down(name))))
    return node, judge_node(node)


def every_node() -> Iterable[tuple[str, Node]]:
    """The nodes, and those that are derived so that each code fails."""
    yield from ((name, judged(name)[0]) for name in names())
    yield from ((f"derived:{code}", node()) for code, node in DERIVED.items())


@pytest.mark.parametrize("remedy", every_remedy(), ids=lambda remedy: remedy.name)
def test_the_effect_of_a_remedy(remedy: Remedy, snapshot):
    found: dict[str, list[str]] = {}
    for name, node in every_node():
        found.setdefault(_effect_text(node, remedy), []).append(name)
    rows = [f"{effect}\n  at {', '.join(where)}" for effect, where in found.items()]
    assert "\n".join(rows) == snapshot


def _effect_text(node: Node, remedy: Remedy) -> str:
    try:
        return "\n".join(map(_supposition_text, remedy.effect(node))) or "nothing"
    except EvidenceMissing as error:
        return f"not possible: {_missing_text(error.missing)}"


def _supposition_text(change: Supposition) -> str:
    fact, subject = change.key
    of = ", ".join(map(str, subject))
    answer = change.answer
    shown = f"unknown: {_missing_text(answer)}" if isinstance(answer, Missing) else repr(answer)
    return f"{fact.__name__}({of}) = {shown}"


def _missing_text(missing: Missing) -> str:
    return f"{missing.source}, {missing.why.value}, {missing.ask}"


@pytest.mark.parametrize("name", names())
def test_plans(name, snapshot):
    node, verdict = judged(name)
    rows = []
    for consumer in NAMES:
        rows += [
            f"{consumer}: what then {_chain_text(chain)}" for chain in what_then(node, verdict, consumer)
        ]
        rows += [f"{consumer}: plan {_chain_text(chain)}" for chain in plan(node, verdict, consumer)]
    steps = loading_plan(node)
    shown = "none" if steps is None else ", ".join(step.name for step in steps)
    assert "\n".join([*rows, f"to load nvidia-peermem: {shown}"]) == snapshot


def _chain_text(chain: Chain) -> str:
    rows = [""]
    for step in chain:
        rows.append(f"{step.remedy.name}: {', '.join((step.then.state.value, *step.then.blocked_by))}")
        rows += prediction_text(step.modprobe).splitlines() if step.modprobe else []
    return "\n  ".join(rows)
