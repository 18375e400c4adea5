"""The pool: every task has a row, whatever happens to the process that judges it."""

import gc
import math
import os
import random
import signal
import sys
import time
import weakref
from pathlib import Path

import pytest

from gdrkit.evidence.target import open_host
from gdrkit.facts.expectation import Supplied
from gdrkit.fleet import pool as pooling
from gdrkit.fleet.document import INTERRUPTED, Standing
from gdrkit.fleet.folder import targets
from gdrkit.fleet.judge import judged as judge_host
from gdrkit.fleet.pool import Pool, judge_all
from gdrkit.fleet.run import judge_files
from gdrkit.fleet.worker import row_of, task_of
from tests.evidence_nodes import laid_down, names
from tests.seed import SEED


def judged(paths, **options):
    rows = []
    judge_all([task_of(path) for path in paths], rows.append, **options)
    return {row.target: row for row in rows}


def test_several_processes_give_the_rows_that_one_gives(trees, tmp_path):
    (tmp_path / "empty.tar.gz").touch()
    paths = [*trees, f"{tmp_path}/empty.tar.gz", f"{tmp_path}/gone"]

    found = judged(paths, processes=3)

    assert found == {path: row_of(task_of(path)) for path in paths}


@pytest.fixture
def without_collections():
    """No garbage collection in this test."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", sorted(random.Random(SEED).sample(names(), 5)))
def test_what_a_judged_node_takes_is_freed_at_once(without_collections, name):
    """Of five nodes, every day others."""
    target = str(laid_down(name))
    host = open_host(target)
    host_alive = weakref.ref(host)

    judge_host(host, target)
    del host

    assert host_alive() is None


def test_what_is_no_evidence_is_a_row_with_its_reason(trees, tmp_path):
    good, _ = trees
    (tmp_path / "empty.tar.gz").touch()
    (tmp_path / "cut.tar.gz").write_bytes(b"\x1f\x8b\x08\0\0\0")
    os.mkfifo(tmp_path / "pipe")
    names = ["empty.tar.gz", "cut.tar.gz", "pipe", "gone.tar.gz", os.fsdecode(b"\xff.tar.gz"), "a\0b"]

    found = judged([good, *(f"{tmp_path}/{name}" for name in names)])

    assert [row.standing for row in found.values()].count(Standing.UNREADABLE) == len(names)
    assert all(row.summary for row in found.values())
    assert found[good].standing is Standing.READY


@pytest.mark.parametrize(("number", "why"), [(signal.SIGKILL, "died"), (signal.SIGSTOP, "more than 0.5 s")])
def test_a_process_that_dies_or_hangs_costs_its_row_only(tmp_path, number, why):
    with Pool(1, 0.5) as pool:
        pool.submit(task_of("not there"))
        list(pool.rows(0))
        os.kill(pool._workers[0].process.pid, number)
        (row,) = until_all_are_judged(pool)
        pool._limit_s = 60.0
        pool.submit(task_of("nor this"))
        (other,) = until_all_are_judged(pool)

    assert row.standing is other.standing is Standing.UNREADABLE
    assert why in row.summary and "no such file" in other.summary


LONGER_THAN_A_PIPE = Supplied(file="e" * (1 << 18))
"""An expectation of a quarter of a MiB: pipe(7), a pipe holds 64 KiB."""


def test_a_task_longer_than_a_pipe_is_judged(trees):
    good, _ = trees
    rows = []

    judge_all([task_of(good, LONGER_THAN_A_PIPE)] * 2, rows.append, processes=1)

    assert [row.target for row in rows] == [good, good] and "died" not in rows[0].summary
    assert rows[0].standing is not Standing.UNREADABLE


def test_a_process_that_reads_no_task_costs_its_row_only(trees):
    good, _ = trees
    with Pool(1) as pool:
        pool.submit(task_of("not there"))
        until_all_are_judged(pool)
        pool._limit_s = 0.5
        os.kill(pool._workers[0].process.pid, signal.SIGSTOP)
        pool.submit(task_of("hung", LONGER_THAN_A_PIPE))
        (row,) = until_all_are_judged(pool)
        pool._limit_s = 60.0
        pool.submit(task_of(good, LONGER_THAN_A_PIPE))
        (other,) = until_all_are_judged(pool)

    assert row.target == "hung" and "more than 0.5 s" in row.summary
    assert other.target == good and other.standing is not Standing.UNREADABLE


def test_what_hangs_until_the_deadline_of_the_run_is_a_row_and_what_waits_behind_it_is_judged(
    trees, monkeypatch
):
    """The first of two tasks of one process is stopped; the other one has its turn after the deadline."""
    monkeypatch.setattr(pooling, "LEAST_S", 0.1)
    monkeypatch.setattr(pooling, "GRACE_S", 120.0)
    good, _ = trees
    with Pool(1) as pool:
        pool.submit(task_of("not there"))
        until_all_are_judged(pool)
        os.kill(pool._workers[0].process.pid, signal.SIGSTOP)
        pool._deadline = time.monotonic() + 0.2
        pool.submit(task_of("hung"))
        pool.submit(task_of(good))
        hung, other = until_all_are_judged(pool)

    assert (hung.target, hung.standing) == ("hung", Standing.UNREADABLE)
    assert hung.summary == "not judged before the deadline of the run" and "--timeout" in hung.advice
    assert other == row_of(task_of(good))


def test_what_still_waits_after_the_grace_is_a_row(trees):
    with Pool(1, deadline=time.monotonic() - pooling.GRACE_S - 1) as pool:
        for path in trees:
            pool.submit(task_of(path))
        rows = until_all_are_judged(pool)

    assert [row.summary for row in rows] == ["not judged before the deadline of the run"] * 2


@pytest.mark.parametrize(
    ("now", "deadline", "end"),
    [
        (0, math.inf, 120),
        (0, 600, 120),
        (0, 60, 60),
        (59, 60, 61),
        (60, 60, 65),
        (64, 60, 65),
        (500, 600, 600),
    ],
)
def test_a_task_ends_at_its_limit_or_at_the_deadline_or_a_little_after_it(now, deadline, end):
    with Pool(1, deadline=deadline) as pool:
        assert pool._ends(now) == end


@pytest.mark.parametrize("sent", [b"[" * 100_000 + b"\n", b'{"name":"\xff"}\n', b"{}\n"])
def test_what_is_no_row_costs_its_row_only(monkeypatch, sent):
    babbling = [sys.executable, "-c", f"import sys; sys.stdin.readline(); sys.stdout.buffer.write({sent!r})"]
    monkeypatch.setattr(pooling, "isolated", lambda module: babbling)
    with Pool(1) as pool:
        pool.submit(task_of("not there"))
        (row,) = until_all_are_judged(pool)

    assert row.standing is Standing.UNREADABLE and "died" in row.summary


def test_names_that_are_written_alike_have_a_row_each(tmp_path):
    alike = [str(tmp_path / "\\xff"), os.fsdecode(bytes(tmp_path) + b"/\xff")]
    rows = []

    assert judge_files(alike, rows.append)
    assert len(rows) == 2 and rows[0].target == rows[1].target


def test_an_interrupt_gives_the_rows_that_were_left_a_reason(tmp_path):
    rows = []

    def arrived(row):
        rows.append(row)
        if len(rows) == 1:
            raise KeyboardInterrupt

    assert not judge_files([str(tmp_path / name) for name in "abc"], arrived)
    assert [row.summary == INTERRUPTED for row in rows] == [False, True, True]
    assert len({row.target for row in rows}) == 3


def until_all_are_judged(pool):
    rows = []
    while pool.busy:
        rows += pool.rows()
    return rows


def test_the_end_of_the_pool_ends_its_processes(trees):
    with Pool(2) as pool:
        for path in trees:
            pool.submit(task_of(path))
        list(pool.rows(0))
        workers = list(pool._workers)

    assert len(workers) == 2
    assert all(worker.process.poll() is not None for worker in workers)


def test_a_folder_holds_a_node_for_each_file_and_each_tree(tmp_path):
    tree = str(tmp_path / "unpacked/gdr-gpu000")
    (tmp_path / "unpacked/gdr-gpu000/sys").mkdir(parents=True)
    (tmp_path / "unpacked/gdr-gpu000/gdr_manifest.json").touch()
    (tmp_path / "sub").mkdir()
    for name in ("b10.tar.gz", "b2.tar.gz", "b2.tar.gz.sha256", ".hidden", "sub/c.tar.xz", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path)

    found = [path.removeprefix(f"{tmp_path}/") for path in targets([str(tmp_path)])]

    assert found == ["b2.tar.gz", "b10.tar.gz", "sub/c.tar.xz", tree.removeprefix(f"{tmp_path}/")]
    assert targets([tree, tree]) == [tree]


@pytest.mark.parametrize("closed", ["a", "b", "c"])
def test_whichever_folder_cannot_be_read_the_others_count(tmp_path, monkeypatch, closed):
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.tar.gz").touch()
    scandir = os.scandir

    def refusing(path):
        if str(path) == f"{tmp_path}/{closed}":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = {path.removeprefix(f"{tmp_path}/") for path in targets([str(tmp_path)])}
    assert found == {closed, *(f"{name}/x.tar.gz" for name in "abc" if name != closed)}


def test_a_subfolder_that_cannot_be_read_is_a_row_and_the_others_are_judged(tmp_path, monkeypatch):
    """Its path is longer than the system takes, 4096 bytes with the NUL; a link leads to itself."""
    (tmp_path / "all").mkdir()
    (tmp_path / "all/damaged.tar.gz").write_bytes(b"\x1f\x8b damaged")
    (tmp_path / "all/loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path / "all")
    for _ in range(20):
        Path("d" * 250).mkdir()
        os.chdir("d" * 250)
    monkeypatch.chdir(tmp_path)

    rows = judged(targets([str(tmp_path / "all")])).values()
    assert len(rows) == 3 and {row.standing for row in rows} == {Standing.UNREADABLE}
    assert all(row.summary for row in rows)
