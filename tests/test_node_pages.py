"""What gdr says of every node in tests/evidence, on one page each, as it was reviewed: the first screen, the
findings, the state for each program and on each path, and where the steps of the plan lead.

What must hold is in each expected.toml; here is what else would change, to be read in a commit. The
sentences of a code are in the snapshot of its rule, the commands of a step in that of its procedure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import pytest

from gdrkit.diagnosis import report_on
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.programs.names import NAMES
from gdrkit.repair.remedies.loading_plan import loading_plan
from gdrkit.repair.remedies.plan import Chain, PlannedStep, plan, what_then
from gdrkit.report.text import text
from gdrkit.verdict import Verdict, judge_node
from tests.evidence_nodes import laid_down, names
from tests.known_answers import findings_text, matrix_text, prediction_text, states_text


@functools.cache
def node(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


@pytest.mark.parametrize("name", names())
def test_a_node(name, snapshot):
    verdict = judge_node(node(name))
    parts = {
        text(report_on(node(name)), width=100, target="node.tar.gz").partition("\n\n")[0]: [],
        "findings": findings_text(verdict.findings),
        "programs": states_text(verdict),
        "paths": matrix_text(verdict),
        "steps": [*_steps(node(name), verdict)],
        "assumed": [f"{row.text} for {row.consumer}" for row in verdict.assumes],
    }
    shown = {title: rows for title, rows in parts.items() if rows or "\n" in title}
    assert "\n".join(row for title, rows in shown.items() for row in (title, *_indented(rows))) == snapshot


def _indented(rows: Iterable[str]) -> Iterator[str]:
    return (f"  {row}" for row in rows)


def _steps(node: Node, verdict: Verdict) -> Iterator[str]:
    """Where the obvious steps lead, and the plans in their order; programs with the same chain share it."""
    titles: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for program in NAMES:
        chains = what_then(node, verdict, program)
        for chain in chains:
            titles.setdefault(_steps_of(chain), {}).setdefault("what then", []).append(program)
        full = {_names_of(chain): chain for chain in chains}
        for number, chain in enumerate(plan(node, verdict, program), 1):
            same = full.get(_names_of(chain), chain)
            titles.setdefault(_steps_of(same), {}).setdefault(f"plan {number}", []).append(program)
    for steps, programs in titles.items():
        yield "; ".join(f"{title} for {', '.join(sharing)}" for title, sharing in programs.items())
        yield from _indented(steps)
    loading = loading_plan(node)
    if loading is not None:
        yield f"to load nvidia-peermem: {', '.join(step.name for step in loading)}"


def _names_of(chain: Chain) -> tuple[object, ...]:
    return tuple((step.remedy.name, step.path, step.then) for step in chain)


def _steps_of(chain: Chain) -> tuple[str, ...]:
    return tuple(map(_step_text, chain))


def _step_text(step: PlannedStep) -> str:
    """A step, the state that it leads to with its causes, and what modprobe would then do."""
    words = [f"{step.remedy.name} for {step.path}: {step.then.state.value}", ", ".join(step.then.blocked_by)]
    words += [f"modprobe {prediction_text(step.modprobe).partition(' -- ')[0]}"] if step.modprobe else []
    return "; ".join(filter(None, words))
