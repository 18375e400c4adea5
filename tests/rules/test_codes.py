"""A code owns everything about itself: what its rule declares fits together, and no other table exists."""

import ast
import functools
import re
from pathlib import Path

import pytest

import gdrkit
from gdrkit.consumers.consumer import ConsumerPath
from gdrkit.facts.modules import PEERMEM
from gdrkit.node import Node
from gdrkit.rules import BY_CODE, LOAD_ORDER, RULES
from gdrkit.rules.deciding_command import fill
from gdrkit.rules.load_order import OF_ANY_MODULE, checks_at
from gdrkit.rules.rule import Rule, SettledBy, Status
from gdrkit.rules.stage import Stage
from tests.memory_host import MemoryHost

SOURCE = Path(gdrkit.__file__).parent
MESSAGES = ("messages/", "rules/")
"""Where messages name the codes that can cause them, and where codes are declared."""

TABLES = {
    "facts/gpu.py": "which of several reasons a GPU is refused for",
    "jobs/reasons.py": "causes of messages: NCCL's lines about its routes",
    "fabric/topology/paths.py": "which findings slow a way down, as a closed set",
    "explain/facts.py": "what people call the hardware that a code is about",
}
"""Files with tables of codes that are not properties of the codes. May only shrink."""

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")


def test_every_code_is_declared_once():
    assert len(BY_CODE) == len(RULES)


@each_rule
def test_what_no_remedy_brings_back_is_among_what_a_rule_takes(rule: Rule):
    if rule.permanent:
        assert rule.permanent <= set(rule.takes(None))


@each_rule
def test_a_remedy_and_a_command_stand_in_a_rule_once(rule: Rule):
    assert len(rule.remedies) == len(set(rule.remedies))
    assert len(rule.reported_by) == len(set(rule.reported_by))


@each_rule
def test_what_tells_a_code_has_a_command_and_no_holes_but_the_module(rule: Rule):
    for tell in rule.reported_by:
        assert tell.command
        assert tell.shows
        assert not re.search(r"[{}]", fill(tell.command + tell.shows, "some_module"))


@each_rule
def test_a_finding_that_stops_nothing_is_a_note_or_a_warning(rule: Rule):
    assert rule.default_status in (Status.NOTE, Status.WARNING)


@each_rule
def test_a_rule_that_is_about_one_module_asks_for_no_other(rule: Rule):
    if rule.module:
        assert list(rule.per(Node(MemoryHost()))) == [rule.module]


@each_rule
def test_the_kernel_logs_only_what_stops_a_module(rule: Rule):
    assert rule.loading is not None or not rule.logged


@each_rule
def test_what_an_image_or_a_driver_settles_is_above_the_hardware(rule: Rule):
    if rule.settled_by is not SettledBy.HOST:
        assert rule.layer in ("driver", "rdma", "library")


def test_only_nvidia_peermem_has_codes_of_its_own():
    assert {rule.module for rule in RULES} == {"", PEERMEM}


def test_the_order_of_loading_is_total():
    places = [rule.loading for rule in LOAD_ORDER]

    assert places == sorted(places)
    assert len(places) == len(set(places)) == sum(rule.loading is not None for rule in RULES)


def test_what_can_be_asked_of_any_module_stands_in_one_list():
    placed = [rule for rule in RULES if rule.loading is not None]

    assert [rule for rule in placed if rule.loading.stage.of_any_module] == list(OF_ANY_MODULE)
    assert [rule for stage in Stage for rule in checks_at(stage)] == list(OF_ANY_MODULE)


def test_a_rule_takes_one_programs_own_paths_or_names_none():
    """What a machine lacks, it lacks for every program."""
    for rule in RULES:
        takes = (
            rule.takes("node") if rule.code not in ("dmabuf-disabled-by-env", "ib-disabled-by-env") else ()
        )
        assert len({isinstance(need, ConsumerPath) for need in takes}) <= 1, rule.code


# -- nobody else keeps a table -------------------------------------------------------------------------


def strings(tree: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def tables(path: Path) -> list[ast.AST]:
    """The literals of a file in which two codes stand or more, as keys, values or members."""
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.Set)
        and len(strings(node) & BY_CODE.keys()) > 1
    ]


@functools.cache
def files_with_tables() -> dict[str, list[ast.AST]]:
    paths = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}
    found = {name: tables(path) for name, path in paths.items() if not name.startswith(MESSAGES)}
    return {name: here for name, here in found.items() if here}


def test_no_table_of_codes_stands_outside_the_rules_and_the_messages():
    assert set(files_with_tables()) == set(TABLES)


def test_whatever_looks_like_a_code_in_such_a_table_is_one():
    for name, here in files_with_tables().items():
        words = {word for table in here for word in strings(table) if CODE.fullmatch(word)}
        assert not words - BY_CODE.keys(), name
