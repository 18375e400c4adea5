"""Whole answers as text, which the tests of a folder compare with its snapshots.

The helpers of these tests call `note` with each answer that a test asks for; the folder's conftest.py
compares all of them with the snapshot of the test, besides what the test itself asserts. After a change of
what is said, one command writes the snapshots again, to be read before they are committed:

    uv run --no-sync pytest tests/{rules,programs,loader,verdict,repair} --snapshot-update
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import pytest
from msgspec import Struct
from msgspec.structs import asdict
from syrupy.assertion import SnapshotAssertion

from gdrkit.loader import Prediction
from gdrkit.loader import modprobe as predicted
from gdrkit.node import Node, Trail
from gdrkit.rules.rule import Status, Unknown
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.check_results import CheckResult, confidence_of, trail_of
from gdrkit.verdict.findings import Finding, subject_name
from gdrkit.verdict.node_state import ConsumerState
from gdrkit.verdict.path_state import PathState

_noted: list[str] = []


def note(text: str) -> None:
    """Compare this text, too, at the end of the test."""
    _noted.append(text)


def compare(request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> Iterator[None]:
    """The body of a fixture: compare what a test noted. Property tests draw other examples each time."""
    _noted.clear()
    yield
    drawn = hasattr(request.function, "hypothesis")
    if _noted and not drawn:
        assert "\n".join(_noted) == snapshot


def outcome_text(node: Node, result: CheckResult, places: bool = True) -> str:
    """What a rule says of a subject: every field, and the places that its evidence is from."""
    outcome = result.outcome
    kind = type(outcome).__name__
    subject = subject_name(result.subject)
    rows = [f"{result.rule.code} {subject}: {kind}, {confidence_of(node, result).name}"]
    rows += _fields(outcome.missing if isinstance(outcome, Unknown) else outcome)
    if places:
        rows += [f"  from {place}" for place in _places(trail_of(node, result))]
    return "\n".join(rows)


def fields_text(answer: Struct) -> str:
    return "\n".join(_fields(answer))


def _fields(answer: Struct) -> list[str]:
    """A row for each field, and for each of several values; none for what is empty."""
    found = asdict(answer).items()
    rows = [(name, part) for name, value in found for part in (value if type(value) is tuple else (value,))]
    texts = [(name, value_text(value)) for name, value in rows]
    return [f"  {name}: {text}" for name, text in texts if text not in ("", "None", "False")]


def value_text(value: object) -> str:
    """A value in one row; parts of a structure and of a set in an order that never changes."""
    match value:
        case frozenset():
            return ", ".join(sorted(map(value_text, value)))
        case tuple():
            return ", ".join(map(value_text, value))
        case CheckResult(rule=rule, subject=subject):
            return f"{rule.code} {subject_name(subject)}".strip()
        case Struct():
            return " | ".join(text for part in asdict(value).values() if (text := value_text(part)))
        case enum.Enum():
            return value.name.lower()
    return str(value)


def _places(trail: Trail) -> list[str]:
    """The sources that are cited with a place or a doubt; of the others only their content matters."""
    return [
        " | ".join(filter(None, (source.name, source.locator, source.text, source.confidence.name)))
        for source in trail.sources
        if source.locator or source.text not in ("", "absent")
    ]


def prediction_text(found: Prediction) -> str:
    """A predicted run of modprobe."""
    return "\n".join([f"modprobe {found.module}", *_fields(found)])


def modprobe(node: Node, name: str, arguments: tuple[str, ...] = ()) -> Prediction:
    """The prediction, which is compared whole."""
    found = predicted(node, name, arguments)
    note(prediction_text(found))
    return found


def judged(node: Node) -> Verdict:
    """The verdict on a node, of which what was found and the states are compared."""
    verdict = judge_node(node)
    found = [finding for finding in verdict.findings if finding.status is not Status.UNKNOWN]
    note("\n".join([*map(finding_text, found), *map(_state_text, verdict.states)]))
    return verdict


def finding_text(finding: Finding) -> str:
    """All fields; of one that is unknown what was not found, in fewer rows."""
    if finding.status is Status.UNKNOWN:
        subjects = ", ".join(filter(None, (finding.subject, *finding.also)))
        evidence = "; ".join(map(value_text, finding.evidence))
        rows = (f"{finding.code} {subjects}: unknown, {finding.confidence.name}", finding.seen)
        return "\n  ".join((*rows, finding.expected, f"evidence: {evidence}"))
    return "\n".join([finding.code, *_fields(finding)[1:]])


def _state_text(state: ConsumerState) -> str:
    layer = state.first_broken_layer.value if state.first_broken_layer else "no layer"
    return f"{state.consumer}: {state.state.value}, {state.path}, {layer}, else {state.best_fallback}"


def verdict_text(verdict: Verdict) -> str:
    """The findings, the state for each program with the pairs that decide it, and what is assumed."""
    rows = [*map(finding_text, verdict.findings)]
    for state in verdict.states:
        rows += [_state_text(state), *(f"  {subject_name(pair)}" for pair in state.pairs)]
    return "\n".join([*rows, *(f"assumes {value_text(row)}" for row in verdict.assumes)])


def matrix_text(verdict: Verdict) -> str:
    """Every state of every pair; pairs that share a state share a paragraph."""
    pairs: dict[str, list[str]] = {}
    for pair, states in verdict.matrix.items():
        for state in states:
            pairs.setdefault(_path_text(state), []).append(subject_name(pair) or "the node")
    by_pairs: dict[str, list[str]] = {}
    for state, where in pairs.items():
        by_pairs.setdefault(", ".join(where), []).append(state)
    return "\n".join(row for where, states in by_pairs.items() for row in (where, *states))


def _path_text(state: PathState) -> str:
    """One row, with the names of what is open or missing."""
    open_, missing = (sorted({row.rule.code for row in state.open}), [row.source for row in state.missing])
    parts = {"blocked by": state.codes, "open": open_, "missing": missing}
    words = [
        f"  {state.path} {state.direction} {state.consumer}: {state.state.value}, {state.confidence.name}"
    ]
    return "; ".join([*words, *(f"{name} {', '.join(value)}" for name, value in parts.items() if value)])
