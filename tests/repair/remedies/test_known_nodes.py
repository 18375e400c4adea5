"""What every remedy supposes on every node in tests/evidence, as it was reviewed.

Equal effects of one remedy are listed once, with the first nodes. Of an answer with several parts, those
that change are shown."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable

import pytest
from msgspec import Struct
from msgspec.structs import asdict

from gdrkit.evidence import EvidenceMissing, Missing
from gdrkit.evidence.target import open_host
from gdrkit.facts.kernel import release
from gdrkit.node import Node, Supposition
from gdrkit.repair.remedies import every_remedy
from gdrkit.repair.remedies.remedy import Remedy
from tests.evidence_nodes import laid_down, names
from tests.known_answers import anywhere, missing_text, with_nodes
from tests.repair.remedies.test_pairs import DERIVED


@functools.cache
def known(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


def every_node() -> Iterable[tuple[str, Node]]:
    """The nodes, and those that are derived so that each code fails."""
    yield from ((name, known(name)) for name in names())
    yield from ((f"derived:{code}", node()) for code, node in DERIVED.items())


@pytest.mark.parametrize("remedy", every_remedy(), ids=lambda remedy: remedy.name)
def test_the_effect_of_a_remedy(remedy: Remedy, snapshot):
    found: dict[str, list[str]] = {}
    for name, node in every_node():
        found.setdefault(_effect_text(node, remedy), []).append(name)
    rows = [row for effect, where in found.items() for row in with_nodes(effect, where)]
    assert "\n".join(rows) == snapshot


def _effect_text(node: Node, remedy: Remedy) -> str:
    try:
        rows = [anywhere(_supposition_text(node, row), "", kernel(node)) for row in remedy.effect(node)]
    except EvidenceMissing as error:
        return anywhere(f"not possible: {missing_text(error.missing)}", "", kernel(node))
    times = Counter(rows).items()
    return "\n".join(row if number == 1 else f"{row} x{number}" for row, number in times) or "nothing"


def kernel(node: Node) -> str:
    try:
        return release(node)
    except EvidenceMissing:
        return ""


def _supposition_text(node: Node, change: Supposition) -> str:
    fact, subject = change.key
    of = ", ".join(map(str, subject))
    answer = change.answer
    if isinstance(answer, Missing):
        return f"{fact.__name__}({of}) unknown: {missing_text(answer)}"
    try:
        before = fact(node, *subject)
    except EvidenceMissing:
        before = None
    return f"{fact.__name__}({of}) = {_changed(before, answer)}"


def _changed(before: object, after: object) -> str:
    """A new answer; of a structure or mapping what differs from the one before."""
    parts = _parts(after)
    if parts is None or type(before) is not type(after):
        return repr(after)
    old = _parts(before) or {}
    different = [f"{name} {value!r}" for name, value in parts.items() if old.get(name) != value]
    gone = [f"no {name}" for name in old if name not in parts]
    return f"{type(after).__name__} with {', '.join([*different, *gone]) or 'no change'}"


def _parts(answer: object) -> dict[str, object] | None:
    match answer:
        case Struct():
            return asdict(answer)
        case dict():
            return answer
    return None
