"""What every rule says of every node in tests/evidence, as it was reviewed.

Equal outcomes of one rule are listed once, with the nodes and the number of their subjects."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator

import pytest

from gdrkit.catalogue import every_rule
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Failed, Passed, Rule, Unknown
from gdrkit.verdict.check_results import check_results
from tests.evidence_nodes import laid_down, names
from tests.hiding_host import HidingHost
from tests.known_answers import outcome_text, value_text


@functools.cache
def node(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.code)
def test_the_outcomes_of_a_rule(rule: Rule, snapshot):
    found: dict[str, Counter[str]] = {}
    for name in names():
        for result in check_results(node(name), [rule]):
            outcome = outcome_text(node(name), result, places=False).partition(": ")[2]
            found.setdefault(outcome, Counter())[name] += 1
    rows = [_declared(rule), *(f"{outcome}\n  at {_listed(where)}" for outcome, where in found.items())]
    assert "\n".join(rows) == snapshot


DECLARED = (
    "layer", "permanent", "slows", "direction", "default_status", "loading", "module", "logged",
    "at_registration", "whole_machine", "reported_by", "remedies", "settled_by", "cost", "references",
)  # fmt: skip


def _declared(rule: Rule) -> str:
    """What a rule says of its code on any node."""
    rows = [f"takes: {value_text(rule.takes('nccl'))}"]
    rows += [f"{name}: {value_text(getattr(rule, name))}" for name in DECLARED if getattr(rule, name)]
    return "\n".join(rows)


def _listed(where: Counter[str]) -> str:
    return ", ".join(name if number == 1 else f"{name} x{number}" for name, number in where.items())


HIDDEN = 12
"""Sources that are hidden, one at a time, of those that an outcome is based on."""


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.code)
def test_what_a_rule_says_without_one_of_its_sources(rule: Rule, snapshot):
    """On the first node where it fails and the first where it passes, for the first such subject."""
    rows = []
    for kind in (Failed, Passed):
        where = next(_judged_so(rule, kind), None)
        if where is None:
            continue
        name, subject = where
        whole = HidingHost(node(name).host)
        rows.append(f"at {name}: {_outcome(whole, rule, subject)}")
        asked = list(whole.asked)
        by_outcome: dict[str, list[str]] = {}
        for source in asked[:: len(asked) // HIDDEN + 1]:
            changed = _outcome(HidingHost(node(name).host, {source}), rule, subject)
            by_outcome.setdefault(changed, []).append(source)
        rows += [f"  {outcome}\n    without {', '.join(hidden)}" for outcome, hidden in by_outcome.items()]
    assert "\n".join(rows) == snapshot


def _judged_so(rule: Rule, kind: type[Failed | Passed]) -> Iterator[tuple[str, object]]:
    for name in names():
        for result in check_results(node(name), [rule]):
            if isinstance(result.outcome, kind):
                yield name, result.subject


def _outcome(host: HidingHost, rule: Rule, subject: object) -> str:
    """The outcome in one row."""
    found = judge(Node(host), rule, subject)
    match found:
        case Failed():
            return f"failed: {found.seen}"
        case Unknown():
            return f"unknown: {found.missing.source}, {found.missing.why.value}"
    return f"{type(found).__name__}: {found.why}"
