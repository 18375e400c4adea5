"""The catalogue lists everything that is declared below it, and loads no more of it than a command needs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tools.architecture import SOURCE

from gdrkit.catalogue import (
    CODES,
    consumer_of,
    every_consumer,
    every_message,
    every_rule,
    message_tables,
    rule_of,
)
from gdrkit.programs.names import NAMES

ROOMS = {path.name for path in (SOURCE / "programs").iterdir() if (path / "consumer.py").exists()}


def module_of(path: Path) -> str:
    """The dotted name of a module below the package."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def declared_codes() -> dict[str, str]:
    """The module of each code, by the calls that declare a rule in the sources."""
    found = {}
    for folder in ("rules", "programs"):
        for path in (SOURCE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Call(ast.Name("rule" | "_rule_of"), [ast.Constant(value=str(code)), *_]):
                        found[code] = module_of(path)
    return found


def test_every_code_that_is_declared_is_listed_with_its_module():
    assert dict(CODES) == declared_codes()


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_that_of_its_rule(code: str):
    assert rule_of(code).code == code and rule_of(code) is rule_of(code)


def test_an_unknown_code_has_no_rule():
    with pytest.raises(KeyError):
        rule_of("sky-is-green")


def test_codes_are_listed_by_layer_from_the_hardware_up():
    layers = [rule.layer for rule in every_rule()]
    assert layers == sorted(layers)


def test_every_folder_of_a_program_is_a_name_and_every_name_a_folder():
    assert {name.replace("-", "_") for name in NAMES} == ROOMS
    assert tuple(consumer.name for consumer in every_consumer()) == NAMES
    assert all(consumer_of(name).name == name for name in NAMES)


def test_every_table_of_messages_with_causes_or_a_meaning_is_found_once():
    tables = set()
    for folder in ("messages", "programs"):
        for path in (SOURCE / folder).rglob("*.py"):
            module = import_module(f"gdrkit.{module_of(path)}")
            for name in ("ROWS", "LOADERS"):
                rows = getattr(module, name, ())
                if any(getattr(row, "causes", ()) or getattr(row, "meaning", None) for row in rows):
                    tables.add(f"{module_of(path)}.{name}")
    assert sorted(tables) == sorted(message_tables())
    assert len(every_message()) == len(set(map(id, every_message())))


def loaded(*arguments: str) -> set[str]:
    """The modules of gdrkit that a command loads."""
    code = (
        "import sys; from gdrkit.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, env=os.environ
    )
    return {name.removeprefix("gdrkit.") for name in done.stderr.split() if name.startswith("gdrkit.")}


def test_a_log_is_read_without_most_rules_and_without_those_of_other_programs():
    here, modules = (
        loaded("nccl", str(Path(__file__).parent / "cli" / "examples" / "job.log")),
        {*CODES.values()},
    )
    assert "programs.nccl.messages" in here
    assert len(modules & here) < len(modules) / 4  # remedies and the loader need a few
    assert not {f"programs.{name}.rules" for name in ROOMS - {"mnnvl", "nccl"}} & here
