"""A journal says what was meant and what was done, whatever a crash left of it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.journal import (
    ActionDone,
    ActionIntent,
    Journal,
    JournalRecord,
    RunBegun,
    StepBegun,
    StepEnded,
    new_run,
    parse,
    runs,
    whole_bytes,
)
from gdrkit.repair.apply.root_fs import FileState, RootFS
from gdrkit.repair.platforms.action import Action

OF_BEFORE = Path(__file__).parent / "journals" / "of-0.1.jsonl"
"""What commit 65b8ae7 wrote of a run on the machine of scratch.py. The records of what a folder cannot bring
about (a failure, a reboot, a key for the firmware) were appended by the same code.
"""


@given(st.binary(max_size=200))
def test_any_bytes_are_records_or_an_error(content):
    try:
        records = parse(content)
    except ApplyError:
        return
    assert len(records) <= content.count(b"\n")


@given(st.binary(max_size=60))
def test_what_stands_behind_the_last_whole_line_is_cut_off(rest):
    whole = b'{"type":"step-ended","step":0}\n'
    assert whole_bytes(whole + rest.replace(b"\n", b"")) == len(whole)


def test_damage_in_the_middle_is_an_error_not_a_gap():
    with pytest.raises(ApplyError, match="line 1"):
        parse(b'{"type":"ste\n{"type":"step-ended","step":0}\n')


def test_what_is_appended_is_there_for_the_next_reader(tmp_path):
    place = RootFS(str(tmp_path))
    journal = new_run(place, "20260101-000000")
    journal.open()
    states = (FileState(path="/etc/x", kind="file", mode=0o640, digest="00", attributes={"user.a": "YQ=="}),)
    told = [
        ActionIntent(step=0, action=1, folders=("/a",), states=states),
        ActionDone(step=0, action=1, after={"/etc/x": ""}),
        StepEnded(step=0),
    ]
    for record in told:
        journal.append(record)
    journal.close()
    again = Journal(place, journal.run)
    again.open()
    assert again.records == told
    assert again.intent_of(0, 1) == told[0] and again.done_of(0, 1) == told[1] and again.has_ended(0)
    again.close()


def test_runs_of_one_second_have_names_of_their_own_and_folders_for_their_owner_alone(tmp_path):
    place = RootFS(str(tmp_path))
    first, second = new_run(place, "20260101-000000"), new_run(place, "20260101-000000")
    assert runs(place) == (first.run, second.run) and first.run != second.run
    assert (tmp_path / "var/lib/gdrkit/fix").stat().st_mode & 0o777 == 0o700


def test_a_copy_that_was_damaged_is_never_put_back(tmp_path):
    (tmp_path / "x").write_bytes(b"content")
    place = RootFS(str(tmp_path))
    journal = new_run(place, "20260101-000000")
    state = journal.keep(place.state("/x"), "copy")
    assert journal.kept(state) == b"content"
    (tmp_path / f"var/lib/gdrkit/fix/{journal.run}/backups/copy").write_bytes(b"other")
    with pytest.raises(ApplyError, match="damaged"):
        journal.kept(state)


def test_a_journal_of_before_reads_as_it_was_meant_and_is_written_as_it_was():
    content = OF_BEFORE.read_bytes()
    records = parse(content)
    assert b"".join(msgspec.json.encode(record) + b"\n" for record in records) == content
    assert {type(record) for record in records} == set(get_args(JournalRecord))
    actions = {
        type(a) for record in records if isinstance(record, StepBegun) for a in record.procedure.actions
    }
    assert actions == set(get_args(Action))
    begun = records[0]
    assert isinstance(begun, RunBegun)
    assert (begun.consumer, begun.choices.digest, begun.choices.acs) == ("ucx", "sha512", "volatile")
    assert (begun.before.states["nccl"], begun.before.peermem) == ("impossible", "install-override")
