"""Every action of every procedure on the nodes in tests/evidence, as it was reviewed.

Equal actions of one procedure are listed once, with the first nodes and families of distributions.
Of a file that a person applies there is the first line: its content is in the tests of repair/config."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.kernel import release
from gdrkit.node import Node
from gdrkit.repair.platforms.action import (
    Action,
    AskPerson,
    RemoveFile,
    RunCommand,
    SignModules,
    WriteFile,
)
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import every_remedy
from gdrkit.repair.remedies.remedy import Remedy
from tests.evidence_nodes import names
from tests.known_answers import WIDTH, anywhere, value_text, with_nodes, wrapped
from tests.repair.platforms.test_procedures import CHOICES, FAMILIES, node
from tests.repair.remedies.test_pairs import DERIVED

PLAIN, CHOSEN = CHOICES
VOLATILE = ProcedureChoices(acs="volatile", digest="sha512")


def every_case() -> Iterable[tuple[str, Node, ProcedureChoices]]:
    for name in names():
        yield name, node(name), PLAIN
        yield from ((f"{name} as {family}", node(name, family), PLAIN) for family in FAMILIES)
        yield f"{name} chosen", node(name), CHOSEN
        yield f"{name} volatile", node(name), VOLATILE
    yield from ((f"derived:{code}", derived(), PLAIN) for code, derived in DERIVED.items())


@pytest.mark.parametrize("remedy", every_remedy(), ids=lambda remedy: remedy.name)
def test_the_actions_of_a_procedure(remedy: Remedy, snapshot):
    found: dict[tuple[str, ...], list[str]] = {}
    for name, where, choices in every_case():
        procedure = procedure_for(where, remedy, choices)
        texts = ("\n".join(_rows_of(action)) for action in procedure.actions)
        actions = tuple(anywhere(text, "", kernel(where)) for text in texts)
        found.setdefault(actions, []).append(name)
    rows = []
    variants: dict[str, list[str]] = {}
    for actions, cases in found.items():
        rows += with_nodes("\n".join(_shown(actions, variants)) or "nothing", cases, shown=2)
    assert "\n".join(rows) == snapshot


def _shown(actions: Iterable[str], variants: dict[str, list[str]]) -> Iterator[str]:
    """The rows of a procedure's actions; of those that an earlier one has, the commands in few rows."""
    for seen, group in groupby(actions, lambda action: action in variants.get(_command(action), ())):
        if seen:
            yield from wrapped("as above:", (_named(action, variants) for action in group))
        for action in () if seen else group:
            variants.setdefault(_command(action), []).append(action)
            yield from action.split("\n")


def _named(action: str, variants: dict[str, list[str]]) -> str:
    """The command of an action, and which one if several actions have it."""
    command = _command(action)
    same = variants[command]
    return f"{command} (number {same.index(action) + 1})" if len(same) > 1 else command


def _command(action: str) -> str:
    """An action without its reason and its rows; of what is asked for, the first words."""
    if action.startswith("ask"):
        return textwrap.shorten(action.partition("\n")[0], WIDTH // 2, placeholder=" ...")
    return re.split(r"( \([a-z_, ]+\))?: |\n", action, maxsplit=1)[0]


def _rows_of(action: Action) -> list[str]:
    """An action in the words of a shell, then why, and what is particular about it."""
    match action:
        case WriteFile():
            head = [f"write {action.path} {action.mode:04o}: {action.why}"]
            head += [f"  was {action.was[:12]}"] if action.was else []
            return head + [f"  | {line}".rstrip() for line in action.content.splitlines()]
        case RemoveFile():
            return [f"remove {action.path}: {action.why}"]
        case RunCommand():
            return _rows_of_command(action)
        case SignModules():
            keys = f"with {action.key}, {action.certificate}, {action.digest}"
            folders = ", ".join(sorted({path.rpartition("/")[0] for path in action.paths}))
            files = [path.rpartition("/")[2] for path in action.paths]
            return [f"sign {keys}: {action.why}", *wrapped(f"  in {folders}:", files, " ")]
        case AskPerson():
            first, *others = action.content.splitlines() or [""]
            lines = [*action.commands, *([f"| {first} and {len(others)} lines"] if first else [])]
            return [f"ask: {action.what}", *(f"  {line}" for line in lines)]
    return [f"{type(action).__name__} {value_text(action)}"]


def _rows_of_command(action: RunCommand) -> list[str]:
    marks = [name for name in ("again", "may_fail", "never_executed") if getattr(action, name)]
    lists = {"in the root": action.in_root, "touches": action.touches}
    rows = [f"  undo: {shlex.join(argv)}" for argv in action.undo]
    rows += [f"  {name}: {shlex.join(words)}" for name, words in lists.items() if words]
    kind = f" ({', '.join(marks)})" if marks else ""
    return [f"$ {shlex.join(action.argv)}{kind}: {action.why}", *rows]


def kernel(node: Node) -> str:
    try:
        return release(node)
    except EvidenceMissing:
        return ""
