"""Runs that wait for a reboot of this machine, and runs that must not continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.journal import (
    ActionDone,
    ActionIntent,
    Journal,
    JournalRecord,
    RebootWanted,
    RunBegun,
    RunFinished,
    StepBegun,
    StepEnded,
    UndoBegun,
    UndoEnded,
    VerdictSnapshot,
    new_run,
)
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.apply.runner import BOOT_ID, Runner, newest_not_undone, remedy_named, unfinished_run
from gdrkit.repair.platforms.action import AskPerson, Procedure
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.remedies import remedy_of
from gdrkit.rules.remedy_names import RemedyName
from tests.repair.apply.this_machine import programs, root

__all__ = ["programs", "root"]

BEFORE = VerdictSnapshot(states={"nccl": "blocked"}, findings=(), peermem="")
AFTER = VerdictSnapshot(states={"nccl": "ready"}, findings=(), peermem="")
THIS_BOOT = Path(BOOT_ID).read_text().strip()


def begun(*steps: str) -> RunBegun:
    return RunBegun(
        version="0", time="", consumer="nccl", steps=steps, choices=ProcedureChoices(), before=BEFORE
    )


def planned(step: int, remedy: str) -> StepBegun:
    by_hand = AskPerson(what=f"step {step}")
    return StepBegun(step=step, procedure=Procedure(remedy=remedy, platform="debian", actions=(by_hand,)))


def journal_of(root: RootFS, *records: JournalRecord, second: int = 0) -> Journal:
    journal = new_run(root, f"20260101-0000{second:02d}")
    journal.open()
    for record in records:
        journal.append(record)
    return journal


class Run:
    def __init__(self, journal: Journal) -> None:
        self.journal, self.told = journal, list[str]()
        already = len(journal.records)
        runner = Runner(journal, Passwords(), self.told.append, lambda *_: False, lambda *_: AFTER)
        self.outcome = runner.run()
        self.new = journal.records[already:]


TWO = (
    begun("iommu-passthrough", "raise-memlock"),
    planned(0, "iommu-passthrough"),
    planned(1, "raise-memlock"),
)


def test_a_step_that_needs_a_reboot_stops_the_run_until_the_next_boot(root):
    first = Run(journal_of(root, *TWO))
    assert (first.outcome.status, first.outcome.before, first.outcome.after) == ("reboot", BEFORE, None)
    wanted = RebootWanted(step=0, boot_id=THIS_BOOT)
    done = ActionDone(step=0, action=0, note="by hand")
    assert first.new == [ActionIntent(step=0, action=0), done, StepEnded(step=0), wanted]
    assert first.told == ["do this by hand: step 0"]
    again = Run(first.journal)
    assert (again.outcome.status, again.new, again.told) == ("reboot", [], [])


@pytest.mark.parametrize("earlier", ["another boot", ""])
def test_after_the_reboot_the_other_steps_follow(root, earlier):
    waits = journal_of(root, *TWO, StepEnded(step=0), RebootWanted(step=0, boot_id=earlier))
    run = Run(waits)
    assert (run.outcome.status, run.outcome.run, run.outcome.after) == ("finished", waits.run, AFTER)
    assert run.told == ["do this by hand: step 1"]
    assert run.new[-2:] == [StepEnded(step=1), RunFinished(after=AFTER)]


def test_a_step_without_a_reboot_is_followed_at_once(root):
    run = Run(journal_of(root, begun("raise-memlock"), planned(0, "raise-memlock")))
    assert (run.outcome.status, run.outcome.after) == ("finished", AFTER)


def test_a_tree_needs_no_reboot(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "tree/etc").mkdir(parents=True)
    run = Run(journal_of(RootFS(str(tmp_path / "tree")), *TWO))
    assert (run.outcome.status, run.told) == (
        "finished",
        ["do this by hand: step 0", "do this by hand: step 1"],
    )


def test_a_run_whose_undo_has_begun_does_not_continue(root):
    journal = journal_of(root, *TWO, UndoBegun(intact=()))
    with pytest.raises(ApplyError) as caught:
        Run(journal)
    assert str(caught.value) == f"undo of run {journal.run} has started"
    assert caught.value.hint == "gdr fix --undo completes it"


def test_an_unknown_step_is_named_beside_those_that_exist(root):
    assert remedy_named("raise-memlock") is remedy_of("raise-memlock")
    with pytest.raises(ApplyError) as caught:
        remedy_named("raise")
    assert str(caught.value) == "unknown step: raise"
    assert caught.value.hint == f"known steps: {', '.join(RemedyName)}"


FINISHED = RunFinished(after=AFTER)
STATES: dict[str, tuple[tuple[JournalRecord, ...], bool, bool]] = {
    "not begun": ((), False, False),
    "begun": (TWO, True, True),
    "finished": ((*TWO, FINISHED), False, True),
    "undoing": ((*TWO, FINISHED, UndoBegun(intact=())), True, True),
    "undone": ((*TWO, FINISHED, UndoBegun(intact=()), UndoEnded()), False, False),
}


@pytest.mark.parametrize("state", STATES)
def test_which_run_is_continued_and_which_is_undone(root, state):
    """An older run that is finished lies below; a newer one that is undone lies above."""
    records, unfinished, undoable = STATES[state]
    below = journal_of(root, begun(), FINISHED, second=0)
    journal = journal_of(root, *records, second=1)
    above = journal_of(root, begun(), UndoBegun(intact=()), UndoEnded(), second=2)
    for opened in (below, journal, above):
        opened.close()
    descriptors = Path("/proc/self/fd")
    before = len([*descriptors.iterdir()])
    continued, newest = unfinished_run(root), newest_not_undone(root)
    assert len([*descriptors.iterdir()]) == before + (continued is not None) + (newest is not None)
    assert (continued.run if continued else None) == (journal.run if unfinished else None)
    assert newest is not None and newest.run == (journal.run if undoable else below.run)
    newest.close()
    if continued:
        continued.close()
    assert (journal.is_begun, journal.is_finished) == (bool(records), FINISHED in records)
    assert (journal.is_undoing, journal.is_undone) == (state in ("undoing", "undone"), state == "undone")
