"""Journals are read back whole, truncated by a crash, damaged, or written by an older version."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.cli import main
from gdrkit.repair.apply import store
from gdrkit.repair.apply.entries import FileState
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.journal import (
    ActionDone,
    ActionIntent,
    Journal,
    JournalRecord,
    RebootWanted,
    RunBegun,
    StepBegun,
    StepEnded,
    new_run,
    parse,
    runs,
    whole_bytes,
)
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import Action
from gdrkit.repair.platforms.command_shapes import fault


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


JOURNAL_OF_0_1 = Path(__file__).parent / "journals" / "of-0.1.jsonl"
"""Written by commit 65b8ae7 for a run on the machine of scratch.py. Records that cannot occur in a folder (a
failure, a reboot, a key for the firmware) were appended with the same code.
"""


@given(st.binary(max_size=200))
def test_any_bytes_give_records_or_an_error(content):
    try:
        records = parse(content)
    except ApplyError:
        return
    assert len(records) <= content.count(b"\n")


@given(st.binary(max_size=60))
def test_bytes_after_the_last_complete_line_are_cut_off(rest):
    whole = b'{"type":"step-ended","step":0}\n'
    assert whole_bytes(whole + rest.replace(b"\n", b"")) == len(whole)


def test_a_damaged_line_in_the_middle_is_an_error():
    with pytest.raises(ApplyError, match="line 1"):
        parse(b'{"type":"ste\n{"type":"step-ended","step":0}\n')


def test_only_a_last_line_that_nothing_follows_may_be_damaged():
    """Power failed before its blocks reached the disk."""
    whole, torn = b'{"type":"step-ended","step":0}\n', b"\0\0\0\n"
    assert parse(whole + torn) == [StepEnded(step=0)]
    assert (whole_bytes(whole + torn), whole_bytes(torn), whole_bytes(b"")) == (len(whole), 0, 0)
    assert whole_bytes(whole + torn + b"half a line") == len(whole)
    for rest in (torn + b"x", torn + torn, torn + whole):
        with pytest.raises(ApplyError, match=r"^line 2 of the journal is damaged: "):
            parse(whole + rest)


@pytest.mark.parametrize("records", [[], [StepEnded(step=0)]])
def test_a_journal_without_its_first_record_is_an_error(tmp_path, records):
    journal = new_run(RootFS(str(tmp_path)), "20260101-000000")
    journal.records = records
    with pytest.raises(ApplyError, match=f"^the journal of run {journal.run} does not begin with a `begin`"):
        _ = journal.begin


def test_the_last_record_of_an_action_counts_and_no_other_actions(tmp_path):
    journal = new_run(RootFS(str(tmp_path)), "20260101-000000")
    first, second = ActionDone(step=0, action=1, note="a"), ActionDone(step=0, action=1, note="b")
    other = ActionIntent(step=1, action=0, folders=("/a",))
    wanted = RebootWanted(step=0, boot_id="x")
    journal.records = [first, ActionDone(step=1, action=1), second, other, StepEnded(step=1)]
    assert (journal.done_of(0, 1), journal.done_of(1, 0), journal.done_of(0, 0)) == (second, None, None)
    assert (journal.intent_of(1, 0), journal.intent_of(0, 1), journal.intent_of(0, 0)) == (other, None, None)
    assert (journal.has_ended(0), journal.has_ended(1), journal.reboot) == (False, True, None)
    journal.records.append(wanted)
    assert journal.reboot == wanted
    journal.records.append(StepEnded(step=0))
    assert journal.reboot is None


def test_a_hundred_runs_of_one_second_have_names(tmp_path):
    root = RootFS(str(tmp_path))
    names = [new_run(root, "20260101-000000").run for _ in range(100)]
    assert names == [f"20260101-000000-{number:02d}" for number in range(100)]
    (Path(store.home(root)) / "20260101-000000-1").mkdir()
    assert list(runs(root)) == names
    assert new_run(root, "20260101-000000").run == "20260101-000001-00"


def test_a_run_comes_after_all_others_also_where_the_clock_was_set_back(tmp_path):
    """`--resume` and `--undo` take the newest run, and the order of the names is that of the runs."""
    root = RootFS(str(tmp_path))
    moments = ["20260101-235959", "20260101-235959", "20251231-000000", "20260102-000000", "20260101-000000"]
    names = [new_run(root, moment).run for moment in moments]
    assert names == sorted(set(names)) == list(runs(root))


def test_a_run_whose_name_is_the_last_of_all_is_named(tmp_path):
    root = RootFS(str(tmp_path))
    new_run(root, "20260101-000000")
    (Path(store.home(root)) / "99999999-999999-99").mkdir()
    with pytest.raises(ApplyError, match="no name comes after that of run 99999999-999999-99"):
        new_run(root, "20260101-000000")


def test_appended_records_are_read_back(tmp_path):
    root = RootFS(str(tmp_path))
    journal = new_run(root, "20260101-000000")
    journal.open()
    states = (FileState(path="/etc/x", kind="file", mode=0o640, digest="00", attributes={"user.a": "YQ=="}),)
    records = [
        ActionIntent(step=0, action=1, folders=("/a",), states=states),
        ActionDone(step=0, action=1, after={"/etc/x": ""}),
        StepEnded(step=0),
    ]
    for record in records:
        journal.append(record)
    journal.close()
    again = Journal(root, journal.run)
    again.open()
    assert again.records == records
    assert again.intent_of(0, 1) == records[0] and again.done_of(0, 1) == records[1] and again.has_ended(0)
    again.close()


def test_runs_of_the_same_second_have_different_names_and_private_folders(tmp_path):
    root = RootFS(str(tmp_path))
    first, second = new_run(root, "20260101-000000"), new_run(root, "20260101-000000")
    assert runs(root) == (first.run, second.run) and first.run != second.run
    assert Path(store.home(root)).stat().st_mode & 0o777 == 0o700


def test_a_damaged_backup_is_never_restored(tmp_path):
    (tmp_path / "x").write_bytes(b"content")
    root = RootFS(str(tmp_path))
    journal = new_run(root, "20260101-000000")
    state = journal.back_up(root.state("/x"), "00-00-000")
    assert journal.backup_of(state) == b"content"
    (Path(journal.folder) / "backups/00-00-000").write_bytes(b"other")
    with pytest.raises(ApplyError, match="damaged"):
        journal.backup_of(state)


def test_a_journal_of_version_0_1_is_read_and_encoded_back_unchanged():
    content = JOURNAL_OF_0_1.read_bytes()
    records = parse(content)
    assert b"".join(msgspec.json.encode(record) + b"\n" for record in records) == content
    assert {type(record) for record in records} == set(get_args(JournalRecord))
    actions = {
        type(a) for record in records if isinstance(record, StepBegun) for a in record.procedure.actions
    }
    assert actions == set(get_args(Action))
    assert not any(
        fault(a) for record in records if isinstance(record, StepBegun) for a in record.procedure.actions
    )
    begun = records[0]
    assert isinstance(begun, RunBegun)
    assert (begun.consumer, begun.choices.digest, begun.choices.acs) == ("ucx", "sha512", "volatile")
    assert (begun.before.states["nccl"], begun.before.peermem) == ("impossible", "install-override")


def test_a_run_that_never_began_is_listed(tmp_path, capsys):
    """The disk was full before its first record was written."""
    run = new_run(RootFS(str(tmp_path)), "20261120-120000").run
    assert main(["fix", "--status", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [run, "not", "begun", "nothing", "was", "changed"]


def test_a_tree_without_runs_is_named(tmp_path, capsys):
    assert main(["fix", "--status", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no runs on {tmp_path}\n"


@pytest.mark.parametrize("mode", ["--status", "--undo", "--resume"])
def test_a_dangling_folder_of_a_run_is_named_in_full(tmp_path, capsys, mode):
    folder = Path(new_run(RootFS(str(tmp_path / ".")), "20261120-120000").folder)
    (folder / "backups").rmdir()
    folder.rmdir()
    folder.symlink_to(tmp_path / "gone")
    assert main(["fix", mode, "--root", str(tmp_path)]) == 74
    error = capsys.readouterr().err
    assert f"{tmp_path}/gone: no such file" in error and len(error.splitlines()) == 2


def test_a_record_that_the_disk_does_not_take_names_the_journal(tmp_path, monkeypatch):
    journal = new_run(RootFS(str(tmp_path)), "20261120-120000")
    journal.open()
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left") as caught:
        journal.append(StepEnded(step=0))
    monkeypatch.undo()
    journal.close()
    assert caught.value.filename == f"{journal.folder}/journal.jsonl"
