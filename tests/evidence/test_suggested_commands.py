"""Commands that a reader is asked to run contain no name from evidence that is not quoted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "gdrkit"
COMMAND_OF = {"not_collected": 1, "Missing": 2}
"""Where the command stands among the arguments."""
WHOLE = ("ask",)
"""Names of what is a whole command already."""


def unquoted(text: str) -> list[str]:
    """The names in suggested commands of a source that are neither quoted nor constants."""
    found = []
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        position = COMMAND_OF.get(call.func.id, len(call.args))
        for argument in [
            *call.args[position:],
            *(word.value for word in call.keywords if word.arg == "ask"),
        ]:
            for part in ast.walk(argument) if isinstance(argument, ast.JoinedStr) else ():
                if isinstance(part, ast.FormattedValue) and not _is_safe(part.value, argument):
                    found.append(f"{call.lineno}: {ast.unparse(argument)}")
    return found


def _is_safe(value: ast.expr, command: ast.JoinedStr) -> bool:
    inner = [part for part in ast.walk(command) if isinstance(part, ast.Call) and _is_quoting(part)]
    within_quotes = any(value in list(ast.walk(call)) for call in inner)
    return within_quotes or (isinstance(value, ast.Name) and (value.id.isupper() or value.id in WHOLE))


def _is_quoting(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("quoted", "in_prose", "_word")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.name)
def test_names_in_suggested_commands_are_quoted(path):
    assert unquoted(path.read_text()) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("not_collected(f'ports of {name}', f'ibv_devinfo -d {name}')", 1),
        ("Missing('ports', why, f'cat /{path}')", 1),
        ("Missing('ports', why, ask=f'cat /{path}')", 1),
        ("not_collected(f'ports of {name}', f'ibv_devinfo -d {quoted(name)}')", 0),
        ("Missing('ports', why, f'cat {quoted(f\"/{ROOT}/{name}\")}')", 0),
        ("Missing('ports', why, f'cat /{ROOT}/version')", 0),
    ],
)
def test_the_scan_finds_what_is_not_quoted(text, number):
    assert len(unquoted(text)) == number
