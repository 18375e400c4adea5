"""Commands run on this machine or in a tree, and their failures are quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.repair.apply.commands import find, run_captured, run_command, with_programs
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import AskPerson, Procedure, RunCommand
from tests.repair.apply.this_machine import programs, root

__all__ = ["programs", "root"]

LINES = "".join(f"line {number}\n" for number in range(1, 8))


def test_a_failure_quotes_the_command_its_code_and_five_lines(programs, root):
    programs.add("depmod", LINES, 3)
    with pytest.raises(ApplyError) as caught:
        run_command(root, RunCommand(argv=("depmod", "-a", "a b"), why="x"))
    assert str(caught.value) == (
        "depmod -a 'a b': exit code 3\n  line 3\n  line 4\n  line 5\n  line 6\n  line 7"
    )
    assert programs.called == ["depmod -a a b"]


def test_a_failure_without_output_is_one_line(programs, root):
    programs.add("depmod", code=1)
    with pytest.raises(ApplyError) as caught:
        run_command(root, RunCommand(argv=("depmod",), why="x"))
    assert str(caught.value) == "depmod: exit code 1"


def test_a_command_that_may_fail_only_runs(programs, root):
    programs.add("rmmod", "busy", 1)
    assert run_command(root, RunCommand(argv=("rmmod", "x"), why="x", may_fail=True)) == ""
    assert programs.called == ["rmmod x"]


def test_a_tree_gets_the_command_for_trees_or_none(programs, tmp_path):
    programs.add("depmod")
    (tmp_path / "tree").mkdir()
    tree = RootFS(str(tmp_path / "tree"))
    here = RunCommand(argv=("depmod", "-a"), why="x")
    assert run_command(tree, here) == "not run: this is not the running machine"
    assert programs.called == []
    inside = RunCommand(argv=("depmod", "-a"), in_root=("depmod", "-b", "{root}", "-r{root}"), why="x")
    assert run_command(tree, inside) == ""
    ((_, _, base, option),) = (call.split() for call in programs.called)
    assert base.startswith("/") and not Path(base).exists() and option == "-r{root}"


def test_a_program_is_found_in_folders_of_the_system_alone(programs):
    programs.add("depmod")
    path = str(programs.folder / "bin/depmod")
    assert (find("depmod"), find(path)) == (path, path)
    assert (find("mokutil"), find("/tmp/depmod"), find("./depmod")) == (None, None, None)


def test_a_program_that_is_missing_or_no_program_has_the_shells_exit_code(programs):
    assert run_captured(("none", "x")) == (127, f"none: not found in {programs.folder / 'bin'}")
    programs.add("broken")
    (programs.folder / "bin/broken").write_text("neither a script nor a binary")
    assert run_captured(("broken",)) == (127, "broken: exec format error")


def test_a_procedure_names_the_programs_that_are_there(programs):
    programs.add("depmod")
    path = str(programs.folder / "bin/depmod")
    asked = AskPerson(what="x")
    run = RunCommand(argv=("depmod", "-a"), why="x", undo=(("rmmod", "x"), ("depmod",)), in_root=("depmod",))
    found = with_programs(Procedure(remedy="r", platform="debian", actions=(asked, run)))
    assert found.actions == (
        asked,
        RunCommand(argv=(path, "-a"), why="x", undo=(("rmmod", "x"), (path,)), in_root=(path,)),
    )
