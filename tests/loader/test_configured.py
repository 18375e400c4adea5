"""What modprobe passes and loads by its configuration, held against modprobe itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gdrkit.facts.modprobe_config import SoftDependency, configuration
from gdrkit.messages.errors import ELOOP, ENOENT
from gdrkit.node import Node
from tests.kernel_tree import KernelTree
from tests.known_answers import modprobe
from tests.loader.modprobe_witness import Machine, needs_modprobe
from tests.memory_host import MemoryHost
from tests.module_builder import build_module

CONF = "etc/modprobe.d/a.conf"


@needs_modprobe
@pytest.mark.parametrize("blank", [" ", "\t", "  ", "\t\t", " \t ", "\v", "\u00a0"])
@pytest.mark.parametrize("end", ["", "\r", " "])
def test_a_soft_dependency_counts_as_modprobe_splits_its_line(tmp_path: Path, blank: str, end: str) -> None:
    """Of two blanks before `pre:`, the second one hides it."""
    text = f"softdep x {blank.removeprefix(' ')}pre: y{end}\n"
    machine = Machine(tmp_path, {f"extra/{n}.ko": build_module(n) for n in ("x", "y")}, conf=text)
    inserted = re.findall(r"(\w)\.ko", machine.modprobe("x").stdout)
    found = modprobe(KernelTree().module("x").module("y").put(CONF, text).node(), "x")
    assert list(found.inserted) == inserted


def test_two_blanks_before_pre_hide_it() -> None:
    tree = KernelTree().put(CONF, "softdep x  pre: y post: z\n")
    assert configuration(tree.node()).softdep == (SoftDependency("x", (), ("z",), CONF, 1),)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("x.n=1", ["n=1"]),
        ("x.=1", ["=1"]),
        ("x.", []),
        ("x.n", ["n"]),
        ('x.s="a b" x.n=1', ['s="a b"', "n=1"]),
        ('"x.s=a b"', ['s="a b"']),
        ('"x.n"', []),
        ('x.s=a"b c"d', ['s=a"b c"d']),
        ("x.a.b=1", []),
        ("a=b x.n=c=d", ["n=c=d"]),
        ("a=x.n=1", []),
        ('x".n=1', []),
        ('x.n=1 x.s="a', ["n=1"]),
    ],
)
def test_options_of_the_kernels_command_line(words: str, options: list[str]) -> None:
    """Observed with modprobe -c of kmod 30 and 34."""
    found = configuration(KernelTree().put("proc/cmdline", f"ro {words}\n").node())
    assert found.arguments_of("x") == " ".join(options)


def test_empty_arguments_before_all_others_leave_no_blank() -> None:
    tree = KernelTree().module("x", parameters={"n": "int"})
    assert modprobe(tree.node(), "x", ("", "n=z")).kernel_log[-1:] == ("x: `z' invalid for parameter `n'",)


DEPENDENCY = "lib/modules/6.1.0-56-amd64/updates/dkms/y.ko"


def with_a_broken_dependency(errno: int, *, loaded: bool) -> Node:
    tree = KernelTree().module("y", exports={"hello": 7})
    tree.module("x", imports={"hello": 7}, depends=("y",), loaded="OE" if loaded else None)
    files = {path: content for path, content in tree.host().files.items() if path != DEPENDENCY}
    return Node(MemoryHost(files, links={DEPENDENCY: "y.ko"} if errno == ELOOP else {}, complete=True))


@pytest.mark.parametrize(
    ("errno", "words"), [(ENOENT, "No such file or directory"), (ELOOP, "Too many levels of symbolic links")]
)
@pytest.mark.parametrize(
    ("loaded", "options", "times"), [(False, (), 2), (False, ("-n",), 2), (True, (), 1), (True, ("-n",), 1)]
)
def test_kmod_complains_of_a_dependency_without_a_file_as_often_as_it_reads_the_line(
    errno: int, words: str, loaded: bool, options: tuple[str, ...], times: int
) -> None:
    """Observed with kmod 30 and 34."""
    found = modprobe(with_a_broken_dependency(errno, loaded=loaded), "x", options)
    complaints = [line for line in found.stderr if f"path=/{DEPENDENCY}" in line]
    assert [line.partition("error=")[2] for line in complaints] == [words] * times


@pytest.mark.parametrize(("command", "is_open"), [("/opt/bring", True), ("/bin/true", False)])
def test_a_dependency_that_an_unknown_command_may_bring_leaves_the_answer_open(
    command: str, is_open: bool
) -> None:
    tree = KernelTree().module("y", exports={"hello": 7})
    tree.module("x", imports={"hello": 7}, depends=("y",)).put(CONF, f"install y {command}\n")
    found = modprobe(tree.node(), "x")
    assert (found.result_unknown, found.undecided) == (is_open, is_open)
    assert is_open or found.exit_code == 1


def test_a_loaded_module_that_modprobe_does_not_find_is_loaded() -> None:
    tree = KernelTree().module("x", loaded="OE").without("lib/modules/6.1.0-56-amd64/modules.dep.bin")
    found = modprobe(tree.node(), "x")
    assert (found.exit_code, found.loaded, found.reason) == (1, True, "module-not-found")
