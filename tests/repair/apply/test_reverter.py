"""What an undo runs, tells, and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.executor import Executor
from gdrkit.repair.apply.journal import (
    ActionDone,
    ActionIntent,
    ActionUndone,
    Journal,
    StepBegun,
    UndoBegun,
    UndoEnded,
    new_run,
)
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.reverter import Reverter
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import Action, Procedure, RunCommand, WriteFile
from tests.repair.apply.this_machine import programs, root

__all__ = ["programs", "root"]

LOAD = RunCommand(argv=("modprobe", "nvidia-peermem"), why="x", undo=(("rmmod", "nvidia_peermem"),))
INDEX = RunCommand(argv=("depmod", "-a", "6.1.0"), why="x", again=True, touches=("/m/modules.[a-z]*",))


def run_of(root: RootFS, *actions: Action) -> Journal:
    """A run of one step, carried out."""
    journal = new_run(root, "20260101-000000")
    journal.open()
    procedure = Procedure(remedy="load-peermem", platform="debian", actions=actions)
    journal.append(StepBegun(step=0, procedure=procedure))
    for number, action in enumerate(actions):
        Executor(journal, Passwords(), lambda line: None).execute(0, number, action)
    return journal


def undo(journal: Journal, *, force: bool = False) -> tuple[tuple[str, ...], list[str]]:
    """The files left alone, and the messages."""
    told: list[str] = []
    return Reverter(journal, Passwords(), told.append, force=force).revert(), told


def test_the_last_command_is_undone_first_and_what_generates_files_runs_last(programs, root):
    for name in ("modprobe", "rmmod", "depmod"):
        programs.add(name)
    other = RunCommand(argv=("rmmod", "nv_peer_mem"), why="x", undo=(("modprobe", "nv_peer_mem"),))
    journal = run_of(root, INDEX, other, LOAD, INDEX)
    before = len(programs.called)
    assert undo(journal) == ((), [])
    assert programs.called[before:] == ["rmmod nvidia_peermem", "modprobe nv_peer_mem", "depmod -a 6.1.0"]
    begun = UndoBegun(intact=())
    undone = [ActionUndone(step=0, action=number) for number in (3, 2, 1, 0)]
    assert journal.records[-6:] == [begun, *undone, UndoEnded()]


def test_a_failed_undo_is_told_with_its_last_line_and_the_rest_goes_on(programs, root):
    programs.add("modprobe")
    programs.add("rmmod", "rmmod: ERROR:\nModule nvidia_peermem is in use\n", 1)
    two = RunCommand(argv=LOAD.argv, why="x", undo=(*LOAD.undo, ("modprobe", "nv_peer_mem")))
    journal = run_of(root, two)
    assert undo(journal) == ((), ["rmmod nvidia_peermem: exit code 1: Module nvidia_peermem is in use"])
    assert programs.called[-1] == "modprobe nv_peer_mem"


def test_a_silent_failure_is_told_too(programs, root):
    programs.add("modprobe")
    programs.add("rmmod", code=2)
    assert undo(run_of(root, LOAD))[1] == ["rmmod nvidia_peermem: exit code 2: "]


def test_a_command_that_was_not_run_is_not_undone(programs, root):
    programs.add("rmmod")
    journal = new_run(root, "20260101-000000")
    journal.open()
    journal.append(StepBegun(step=0, procedure=Procedure(remedy="x", platform="debian", actions=(LOAD,))))
    journal.append(ActionIntent(step=0, action=0))
    journal.append(ActionDone(step=0, action=0, note="not run: this is not the running machine"))
    assert undo(journal) == ((), [])
    assert programs.called == []


def test_a_crash_within_a_command_undoes_it(programs, root):
    programs.add("rmmod")
    journal = new_run(root, "20260101-000000")
    journal.open()
    journal.append(StepBegun(step=0, procedure=Procedure(remedy="x", platform="debian", actions=(LOAD,))))
    journal.append(ActionIntent(step=0, action=0))
    assert undo(journal) == ((), [])
    assert programs.called == ["rmmod nvidia_peermem"]


def test_an_index_that_cannot_be_rebuilt_is_told(programs, root):
    programs.add("depmod")
    journal = run_of(root, INDEX)
    (programs.folder / "depmod.cases").unlink()
    programs.add("depmod", "no space", 1)
    assert undo(journal)[1] == ["depmod -a 6.1.0: exit code 1\n  no space"]


def test_generated_files_are_restored_and_new_ones_removed(programs, root):
    """Unless they changed since: then the command, which runs again, has the last word."""
    folder = Path(root.path, "m")
    folder.mkdir()
    for name in ("dep", "alias", "order"):
        (folder / f"modules.{name}").write_text("old")
    programs.add("depmod")
    script = programs.folder / "bin/depmod"
    writes = "".join(f"echo new > {folder}/modules.{name}\n" for name in ("dep", "alias", "symbols"))
    script.write_text(f"#!/bin/sh\n{writes}")
    journal = run_of(root, INDEX)
    (folder / "modules.alias").write_text("mine")
    (folder / "modules.later").write_text("mine, too")
    assert undo(journal) == ((), [])
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "modules.dep": "old",
        "modules.alias": "new\n",
        "modules.order": "old",
        "modules.later": "mine, too",
    }


@pytest.mark.parametrize("force", [False, True])
def test_a_changed_file_is_left_alone_unless_forced(programs, root, force):
    path = Path(root.path, "x")
    path.write_text("old")
    journal = run_of(root, WriteFile(path="/x", content="new", why="x"))
    path.write_text("mine")
    left = () if force else ("/x",)
    told = [] if force else ["left alone: /x (changed since the run)"]
    assert undo(journal, force=force) == (left, told)
    assert path.read_text() == ("old" if force else "mine")
    assert journal.records[-1] == UndoEnded(kept=left)
    assert Path(journal.folder, "backups").exists() is not force


@pytest.mark.parametrize(
    ("intent", "why"),
    [
        (ActionIntent(step=1, action=0), "the journal has no record of step 1"),
        (ActionIntent(step=0, action=1), "step 0 of the journal has no action 1"),
        (ActionIntent(step=0, action=-1), "step 0 of the journal has no action -1"),
    ],
)
def test_a_journal_that_names_what_it_does_not_hold_is_refused(programs, root, intent, why):
    journal = new_run(root, "20260101-000000")
    journal.open()
    journal.append(StepBegun(step=0, procedure=Procedure(remedy="x", platform="debian", actions=(LOAD,))))
    journal.append(intent)
    with pytest.raises(ApplyError, match=f"^{why}$"):
        undo(journal)
    assert programs.called == []
