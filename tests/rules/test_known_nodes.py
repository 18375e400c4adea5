"""What every rule says of every node in tests/evidence, as it was reviewed.

Equal outcomes of one rule are listed once, with the nodes: the first three, and whether there are others.
The page of each node has its problems: test_node_pages.py. What a code costs and which commands show it are
read in its rule. Names of devices and of the kernel's release that differ from node to node stand as
<...>."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator

import pytest

from gdrkit.catalogue import every_rule
from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.target import open_host
from gdrkit.facts.kernel import release
from gdrkit.node import Node
from gdrkit.rules.engine import judge
from gdrkit.rules.rule import Failed, Passed, Rule, Unknown
from gdrkit.verdict.check_results import check_results
from gdrkit.verdict.findings import subject_name
from tests.evidence_nodes import laid_down, names
from tests.hiding_host import HidingHost
from tests.known_answers import anywhere, outcome_text, value_text, with_nodes, wrapped


@functools.cache
def node(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


@functools.cache
def kernel(name: str) -> str:
    try:
        return release(node(name))
    except EvidenceMissing:
        return ""


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.code)
def test_a_rule(rule: Rule, snapshot):
    """What it declares, each of its outcomes, and those without one of the sources."""
    rows = [*_declared(rule), *_outcomes(rule), *_without_a_source(rule)]
    assert "\n".join(rows) == snapshot


def _outcomes(rule: Rule) -> list[str]:
    found: dict[str, Counter[str]] = {}
    for name in names():
        for result in check_results(node(name), [rule]):
            said = outcome_text(node(name), result)
            outcome = anywhere(said, subject_name(result.subject), kernel(name))
            found.setdefault(outcome, Counter())[name] += 1
    return [row for outcome, where in found.items() for row in with_nodes(outcome, _named(where))]


def _declared(rule: Rule) -> list[str]:
    """What a rule says of its code on any node, but for its references."""
    marks = [name for name in ("logged", "at_registration", "whole_machine") if getattr(rule, name)]
    words = [rule.layer.value, f"{rule.default_status.value} by default", rule.direction]
    words += [f"settled by {rule.settled_by.value}", *marks]
    parts = {"takes": rule.takes("nccl"), "permanently": rule.permanent, "slows": rule.slows}
    parts |= {"loading": rule.loading or "", "module": rule.module, "traits": rule.traits}
    parts |= {"remedies": rule.remedies}
    words += [f"{name} {value_text(value)}" for name, value in parts.items() if value]
    return wrapped("", words)


def _named(where: Counter[str]) -> list[str]:
    return [name if number == 1 else f"{name} x{number}" for name, number in where.items()]


HIDDEN = 12
"""Sources that are hidden, one at a time, of those that an outcome is based on."""


def _without_a_source(rule: Rule) -> list[str]:
    """On the first node where it fails and the first where it passes, for the first such subject."""
    rows = []
    for kind in (Failed, Passed):
        where = next(_judged_so(rule, kind), None)
        if where is None:
            continue
        name, subject = where
        whole = HidingHost(node(name).host)
        said = _outcome(whole, rule, subject)
        rows.append(f"at {name}, {said}")
        asked = list(whole.asked)
        by_outcome: dict[str, list[str]] = {}
        for source in asked[:: len(asked) // HIDDEN + 1]:
            changed = _outcome(HidingHost(node(name).host, {source}), rule, subject)
            changed = changed.replace(source, "that") if changed.startswith("unknown") else changed
            by_outcome.setdefault("the same" if changed == said else changed, []).append(source)
        same = by_outcome.pop("the same", [])
        rows[-1] += f"; the same without any of {len(same)} others" if same else ""
        for outcome, hidden in by_outcome.items():
            rows += wrapped(f"  {outcome}, without", hidden, ", ")
    return rows


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
            return f"unknown: {found.missing.source} {found.missing.why.value}"
    return f"{type(found).__name__}: {found.why}"
