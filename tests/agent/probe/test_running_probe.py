"""The probe of running processes as one program, as root and as another user."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import pytest

from gdrkit.agent.probe import running_probe
from gdrkit.agent.probe.program import program
from gdrkit.agent.probe.running_probe import _add_tcp, _others
from gdrkit.agent.running.children import SourceResult
from tests.agent.running.kernel import RECORDED
from tests.agent.running.test_processes import HOLDER, IN_A_NAMESPACE, started
from tests.system_programs import program as installed

SOURCES = {"processes", "rdma", "tcp", "ports", "buffers", "nvml", "node"}


def told(python: str = sys.executable, **options) -> dict:
    done = subprocess.run(
        [python, "-I", "-"],
        input=program("running_probe").encode(),
        capture_output=True,
        timeout=60,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_program_tells_of_each_source_how_it_ended():
    record = told()

    assert record["schema"] == "gdrkit.running/1" and record["sources"].keys() == SOURCES
    assert record["sources"]["processes"]["status"] == record["sources"]["node"]["status"] == "found"


def test_what_names_no_process_has_no_row():
    """A row of NVML about a GPU on which nothing computes, and an object of the kernel."""
    objects = [{"tables": {"mr": {"rows": [{"mrn": 1}, {"mrn": 2, "pid": 0}], "error": ""}}}]
    assert _others([], objects, [{"gpu": "0000:1b:00.0"}]) == []
    (row,) = _others([], objects, [{"gpu": "0000:1b:00.0"}, {"pid": os.getpid()}])
    assert row["pid"] == os.getpid()


def test_it_finds_a_process_and_says_who_asked():
    with started(IN_A_NAMESPACE, NCCL_DEBUG="INFO") as child:
        record = told()

    row = next(row for row in record["processes"] if row["pid"] == child.pid)
    assert row["devices"]["/dev/nvidia3"] == 2 and row["environment"] == {"NCCL_DEBUG": "INFO"}
    assert row["tcp"] == {"sockets": 0, "sent": 0, "received": 0, "sent_here": 0, "received_here": 0}
    assert record["uid"] == os.geteuid()


def test_only_processes_that_are_there_during_the_whole_look_are_told(monkeypatch):
    """NVML names one that has ended, one that starts meanwhile, and one that stays: a pid says no more."""
    with contextlib.ExitStack() as processes:
        ended, stays = (processes.enter_context(started(HOLDER, "", "")) for _ in range(2))

        def gathered(asked, last):
            late = processes.enter_context(started(HOLDER, "", ""))
            results = {name: SourceResult() for name in asked}
            results["nvml"].rows = [{"gpu": "x", "pid": one.pid} for one in (ended, stays, late)]
            identified = running_probe._others([], [], results["nvml"].rows)
            for one in identified:
                results["processes"].rows.append({**one, "sockets": [], "libraries": []})
            ended.kill()
            ended.wait(20)
            return results

        monkeypatch.setattr(running_probe, "gather", gathered)
        record = running_probe.record(0.0, 0.0)

    assert len(record["nvml"]) == 3
    assert [one["pid"] for one in record["processes"]] == [stays.pid]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: run the tests as root")
def test_another_user_is_told_how_many_processes_are_closed_to_him():
    python = installed("/usr/bin/python3")
    with started(IN_A_NAMESPACE) as child:
        record = told(python, user=65534, group=65534, extra_groups=[], cwd="/")

    assert record["uid"] == 65534 and record["denied_processes"] > 0
    assert child.pid not in {row["pid"] for row in record["processes"]}


def test_a_process_that_only_the_table_of_rdma_names_is_shown_without_what_is_closed():
    """Netlink shows the pid to every user; /proc shows name and cgroup, and nothing else."""
    # The parent of this process may be another user's: then /proc/PID/ns is closed too.
    own = "import sys; print(flush=True); sys.stdin.read()"
    with started(own) as child:
        rows = [{"ctxn": 0, "pid": child.pid}, {"ctxn": 1, "pid": 1 << 22}]
        objects = [{"tables": {**{name: {"rows": []} for name in RECORDED}, "ctx": {"rows": rows}}}]

        (found,) = _others([], objects, [])
        assert (found["pid"], found["devices"], found["denied"]) == (
            child.pid,
            {},
            ["environ", "fd", "maps"],
        )
        assert _others([found], objects, [{"pid": child.pid, "gpu": "0000:1b:00.0"}]) == []


def test_a_thread_is_shown_as_its_process():
    objects = [
        {"tables": {"mr": {"rows": [{"mrn": 1, "bytes": 4096, "pid": 1 << 22}]}}},
        {"thread": 1 << 22, "process": os.getppid()},
    ]

    assert [row["pid"] for row in _others([], objects, [])] == [os.getppid()]


def test_what_sockets_moved_is_the_process_that_holds_them():
    seen = [{"sockets": [7, 8, 9]}, {"sockets": []}]
    moved = [
        {"inode": 7, "sent": 500, "received": 0, "here": False, "seconds": 0.5},
        {"inode": 8, "sent": 50, "received": 20, "here": True, "seconds": 0.5},
        {"inode": 6, "sent": 9, "received": 9, "here": False, "seconds": 0.5},
    ]
    _add_tcp(seen, moved)

    assert seen[0] == {
        "tcp": {"sockets": 3, "sent": 1000, "received": 0, "sent_here": 100, "received_here": 40}
    }
    assert seen[1]["tcp"]["sockets"] == 0
