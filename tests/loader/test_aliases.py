"""Options of aliases and `symbol:NAME`, held against modprobe; what the kernel takes for a space."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.facts.module_arguments import split_arguments
from tests.index_builder import index
from tests.kernel_tree import FOLDER, KernelTree
from tests.known_answers import modprobe
from tests.loader.modprobe_witness import Machine, needs_modprobe
from tests.module_builder import build_module

CONF = (
    "alias ni-ck x\noptions ni_ck n=1\noptions x n=2\noptions n* n=3\nalias p* x\noptions p* n=4\n"
    "options pq n=5\noptions symbol:hello n=6\noptions of-file n=7\noptions y n=8\n"
)
SHAPE = {"exports": {"hello": 7}, "parameters": {"n": "int"}, "modinfo": [("alias", "of_file")]}


@needs_modprobe
@pytest.mark.parametrize(
    "name", ["ni-ck", "ni_ck", "x", "pq", "p", "symbol:hello", "of-file", "symbol:nothing"]
)
def test_options_given_for_an_alias_count_where_it_led_to_the_module(tmp_path: Path, name: str) -> None:
    """The last value of n that modprobe passes is bad, and the prediction has that value."""
    tree = KernelTree().module("x", **SHAPE).put(f"{FOLDER}/modules.alias", "alias of_file x\n")
    tree.put(f"{FOLDER}/modules.symbols.bin", index({"symbol:hello": "x"}))
    machine = Machine(tmp_path, {tree.paths["x"]: build_module("x", **SHAPE)}, conf=CONF)  # type: ignore[arg-type]
    said = machine.modprobe(name)
    passed = said.stdout.split(".ko ")[-1].split()
    bad = "".join(f"{line}\n" for line in CONF.replace("n=", "n=bad").splitlines())
    found = modprobe(tree.put("etc/modprobe.d/a.conf", bad).node(), name)
    assert (said.returncode == 0) is (found.reason == "module-bad-parameter")
    logged = [line.split("`")[1].split("'")[0] for line in found.kernel_log if "invalid for" in line]
    assert logged == [word.replace("n=", "bad") for word in passed]


def test_an_alias_of_a_dependency_has_no_options() -> None:
    tree = KernelTree().module("x", parameters={"n": "int"}).module("y", depends=("x",))
    conf = "alias nick x\noptions nick n=bad\n"
    assert modprobe(tree.put("etc/modprobe.d/a.conf", conf).node(), "y").loaded


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a=1 b=2", [("a", "1"), ("b", "2")]),
        ("a=1\u00a0b=2", [("a", "1\\xc2"), ("b", "2")]),
        ("a=1\u2003b=2", [("a", "1\u2003b=2")]),
        ("a=1\x1cb", [("a", "1\x1cb")]),
        ("a=1\x0bb\rc", [("a", "1"), ("b", None), ("c", None)]),
        ("a=\u00e4", [("a", "\u00e4")]),
    ],
)
def test_the_kernels_spaces_are_bytes(text: str, words: list[tuple[str, str | None]]) -> None:
    assert [(word.name, word.value) for word in split_arguments(text)] == words
