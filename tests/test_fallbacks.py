"""Defaults for missing evidence are given with `if_absent` or `if_missing`, which show which of the two it
is."""

import ast
from collections.abc import Iterator

import pytest
from tools.architecture import SOURCE

MISSING = {"EvidenceAbsent", "EvidenceMissing"}
HOME = "node/fallbacks.py"
BY_HAND = {
    "facts/module_lookup.py": "absent is a result there: only an index that was not collected has a text",
}
"""Files with a function that gives a default itself, and why. A new row needs a reason as good."""


def names_in(tree: ast.AST | None) -> set[str]:
    return {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)} if tree else set()


def gives_a_default(handler: ast.ExceptHandler) -> bool:
    """Whether a handler that catches only missing evidence just sets a value, without a call or the
    reason."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    caught = {ast.unparse(kind).rpartition(".")[2] for kind in types if kind}
    lines = handler.body
    return bool(caught) and caught <= MISSING and all(is_default(line, handler.name) for line in lines)


def is_default(line: ast.stmt, reason: str | None) -> bool:
    if isinstance(line, ast.Pass):
        return True
    if not isinstance(line, ast.Return | ast.Assign | ast.AnnAssign):
        return False
    calls = line.value is not None and any(isinstance(part, ast.Call) for part in ast.walk(line.value))
    return not calls and reason not in names_in(line.value)


def defaults_in(tree: ast.AST, function: str = "") -> Iterator[str]:
    """The name of the innermost function around each such handler."""
    for part in ast.iter_child_nodes(tree):
        if isinstance(part, ast.ExceptHandler) and gives_a_default(part):
            yield function
        yield from defaults_in(part, part.name if isinstance(part, ast.FunctionDef) else function)


def test_no_handler_of_missing_evidence_only_returns_a_default():
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if name != HOME:
            tree = ast.parse(path.read_text())
            found |= {name for _ in defaults_in(tree)}
    assert found == BY_HAND.keys()


@pytest.mark.parametrize(
    "handler",
    [
        "except EvidenceMissing: return False",
        "except EvidenceAbsent: return",
        "except (EvidenceAbsent, EvidenceMissing): found = ()",
        "except evidence.EvidenceMissing: pass",
        "except EvidenceMissing as error: return DEFAULT",
    ],
)
def test_a_handler_that_returns_a_default_is_found(handler):
    tree = ast.parse(f"def ask():\n    def inner():\n        try: pass\n        {handler}\n")
    assert list(defaults_in(tree)) == ["inner"]


@pytest.mark.parametrize(
    "handler",
    [
        "except EvidenceMissing: raise",
        "except EvidenceMissing: continue",
        "except (EvidenceMissing, KeyError): return False",
        "except EvidenceMissing as error: return error",
        "except EvidenceMissing: return NotApplicable('it is not there')",
        "except EvidenceMissing:\n            node.cite('log')\n            return False",
    ],
)
def test_a_handler_that_does_more_is_allowed(handler):
    tree = ast.parse(f"def ask():\n    while True:\n        try: pass\n        {handler}\n")
    assert list(defaults_in(tree)) == []
