"""Registrations by tracefs: lines as the kernel writes them, and whose probes may be removed.

What tracefs itself does is tested on real kernels: lab/live.py, tests/jobs/running/test_registrations.py.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.running import trace_files

CALL = (
    b"-326     [000] ...1.   177.254811: rxe_reg_user_mr: (rxe_reg_user_mr+0x0/0x1a0 [rdma_rxe]) "
    b"length=0x10000"
)


def test_a_call_has_its_thread_its_function_and_its_length():
    """kernel/trace/trace_output.c: the name of a thread is right-aligned in 16 columns."""
    assert trace_files.called(b"         python3" + CALL) == (326, "rxe_reg_user_mr", 65536)
    ended = CALL.replace(b"rxe_reg_user_mr:", b"ib_dereg_mr_user:").replace(b" length=0x10000", b"")
    assert trace_files.called(b"         python3" + ended) == (326, "ib_dereg_mr_user", 0)


@pytest.mark.parametrize("name", [b"x-1     [000] ..", b"-999 [000] : a: ", b"\xff\xfe            ab"])
def test_the_name_of_a_thread_may_look_like_anything(name):
    assert len(name) == 16
    assert trace_files.called(name + CALL) == (326, "rxe_reg_user_mr", 65536)


@pytest.mark.parametrize(
    "line", [b"", b"CPU:0 [LOST 12 EVENTS]", CALL, b"         python3" + CALL[:-1] + b"x", CALL * 9]
)
def test_any_other_line_is_no_call(line):
    assert trace_files.called(line) is None


@given(st.binary(max_size=200))
def test_no_line_raises(line):
    trace_files.called(line)


@pytest.fixture
def tracefs(tmp_path, monkeypatch):
    """A folder with the files of tracefs. Here nothing happens when one is written to."""
    (tmp_path / "instances").mkdir()
    monkeypatch.setattr(trace_files, "FOLDERS", (str(tmp_path),))

    def made(*groups: str):
        for group in groups:
            (tmp_path / "instances" / group).mkdir()
        lines = [f"p:{group}/rxe_reg_user_mr rxe_reg_user_mr length=%dx:x64\n" for group in groups]
        (tmp_path / "kprobe_events").write_text("p:mine/f f\n" + "".join(lines))
        return tmp_path

    return made


def test_only_groups_of_processes_that_have_ended_are_removed(tracefs):
    """A pid that another process has now is recognised by its start. Probes of others are left alone."""
    own, start = os.getpid(), trace_files.start_of(os.getpid())
    alive, reused, other = f"gdr_{own}_{start}", f"gdr_{own}_{start + 1}", "perf_7_8"
    folder = tracefs(alive, reused, other)

    assert trace_files.remove_stale() == [reused]
    assert sorted(path.name for path in (folder / "instances").iterdir()) == [alive, other]
    added = (folder / "kprobe_events").read_text().partition("length=%dx:x64\n-:")[2]
    assert added == "" or added.startswith(reused)
    assert (folder / "kprobe_events").read_text().endswith(f"-:{reused}/rxe_reg_user_mr")


def test_what_somebody_follows_keeps_its_probes_although_its_process_is_not_visible(tracefs):
    """In another pid namespace. An instance is EBUSY while its trace_pipe is open; here it is not empty."""
    folder = tracefs("gdr_1_99")
    (folder / "instances/gdr_1_99/file").touch()
    before = (folder / "kprobe_events").read_text()

    assert trace_files.remove_stale() == []
    assert (folder / "kprobe_events").read_text() == before


def test_what_cannot_be_set_as_a_whole_is_removed_again(tracefs):
    """Here the instance has no files of its own. Each probe but the end of a region has its length."""
    folder = tracefs()
    group = f"gdr_{os.getpid()}_{trace_files.start_of(os.getpid())}"
    with pytest.raises(FileNotFoundError, match="buffer_size_kb"):
        trace_files.TraceFiles(str(folder))
    text = (folder / "kprobe_events").read_text()

    assert f"p:{group}/mlx5_ib_reg_user_mr mlx5_ib_reg_user_mr length=$arg3:x64" in text
    assert f"p:{group}/nv_mem_get_pages nv_mem_get_pages length=$arg2:x64" in text
    assert text.count(f"p:{group}/ib_dereg_mr_user ib_dereg_mr_user") == 1
    assert "ib_dereg_mr_user length" not in text
    assert [*(folder / "instances").iterdir()] == []


def test_without_tracefs_there_is_nothing_to_remove(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_files, "FOLDERS", (str(tmp_path / "absent"),))

    assert trace_files.remove_stale() == []
    with pytest.raises(FileNotFoundError, match="no tracefs"):
        trace_files.TraceFiles()
