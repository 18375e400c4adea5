"""Registrations by perf: samples as the kernel writes them, and what is not tried."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.probe.program import program
from gdrkit.agent.running import system, trace
from tests.system_programs import has_ended

PAGE = trace.mmap.PAGESIZE
SIZE = 8 * PAGE


def body(pid: int, *registers: int, abi: int = 2) -> bytes:
    """PERF_SAMPLE_TID and PERF_SAMPLE_REGS_INTR: registers in the order of their numbers."""
    return struct.pack("=IIQ3Q", pid, pid, abi, *registers)


def test_the_length_is_the_argument_that_the_function_has_it_in():
    """x86-64: perf's registers 3, 4, 5 are dx, si, di: arguments 3, 2, 1. arm64: 0, 1, 2 are the same."""
    assert trace.sample(body(701, 30, 20, 10), 3, "x86_64") == (701, 30)
    assert trace.sample(body(701, 30, 20, 10), 2, "x86_64") == (701, 20)
    assert trace.sample(body(701, 10, 20, 30), 3, "aarch64") == (701, 30)
    assert trace.sample(body(701, 10, 20, 30), 0, "aarch64") == (701, 0)


def test_a_sample_without_registers_tells_nothing():
    assert trace.sample(body(701, 1, 2, 3, abi=0), 3, "x86_64") is None
    assert trace.sample(body(701, 1, 2, 3)[:-1], 3, "x86_64") is None


@pytest.fixture
def ring():
    """A ring in a file, as the kernel maps it: a page of its head and tail, then the data."""
    with tempfile.TemporaryFile() as file:
        file.truncate(PAGE + SIZE)
        made = trace.SampleRing(trace.PROBES[0], os.dup(file.fileno()))
        yield made
        made.close()


def put(ring: trace.SampleRing, at: int, *records: bytes) -> None:
    """Write records from a position on, which may go round the end, and set head and tail."""
    data = b"".join(struct.pack("=IHH", 9, 0, 8 + len(one)) + one for one in records)
    for offset, byte in enumerate(data):
        ring._memory[PAGE + (at + offset) % SIZE] = byte
    struct.pack_into("=QQ", ring._memory, 1024, at + len(data), at)


@given(st.integers(0, 3 * SIZE).map(lambda n: 8 * (n // 8)))
def test_records_are_read_wherever_they_go_round(at):
    with tempfile.TemporaryFile() as file:
        file.truncate(PAGE + SIZE)
        ring = trace.SampleRing(trace.PROBES[0], os.dup(file.fileno()))
        put(ring, at, body(1, 1, 2, 3), body(2, 4, 5, 6))

        assert [*ring.take()] == [(9, body(1, 1, 2, 3)), (9, body(2, 4, 5, 6))]
        assert [*ring.take()] == []
        ring.close()


def test_a_record_without_a_length_ends_the_look(ring):
    put(ring, 0, body(1, 1, 2, 3))
    struct.pack_into("=H", ring._memory, PAGE + 6, 0)

    assert [*ring.take()] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-3", [0, 1, 2, 3]), ("0,2-3,8\n", [0, 2, 3, 8]), ("", []), ("x-2", []), ("0-99999", [])],
)
def test_the_cpus_are_those_that_are_online(text, expected):
    assert trace.cpus(text) == expected


LOST = 2
"""PERF_RECORD_LOST: include/uapi/linux/perf_event.h."""


def lose(ring: trace.SampleRing, *bodies: bytes) -> None:
    data = b"".join(struct.pack("=IHH", LOST, 0, 8 + len(one)) + one for one in bodies)
    ring._memory[PAGE : PAGE + len(data)] = data
    struct.pack_into("=QQ", ring._memory, 1024, len(data), 0)


@pytest.mark.parametrize(("size", "lost"), [(15, 0), (16, 7), (17, 7)])
def test_lost_samples_are_counted_where_the_record_is_whole(ring, monkeypatch, size, lost):
    monkeypatch.setattr(trace, "_rings", lambda: [ring])
    lose(ring, (struct.pack("=QQ", 1, 7) + bytes(1))[:size])

    assert trace.Perf().counts() == ({}, lost)


def test_what_was_lost_is_told_for_the_interval_in_which_it_was(ring, monkeypatch):
    monkeypatch.setattr(trace, "_rings", lambda: [ring])
    monkeypatch.setattr(trace, "remove_stale", list)
    monkeypatch.setattr(trace.SampleRing, "close", lambda self: None)  # the fixture closes it
    lose(ring, struct.pack("=QQ", 1, 7), struct.pack("=QQ", 1, 4))
    rows: list[dict] = []
    trace.follow(rows.append, 0.2, 0.01)

    assert [row for row in rows if "probes" not in row] == [{"lost": 11}]


def test_under_lockdown_nothing_is_tried(monkeypatch):
    """Each try would be a line in the kernel's log."""
    monkeypatch.setattr(system, "lockdown", lambda: "none integrity [confidentiality]")
    monkeypatch.setattr(trace, "_source", lambda: pytest.fail("tried"))
    monkeypatch.setattr(trace, "remove_stale", lambda: pytest.fail("tried"))

    with pytest.raises(PermissionError, match="locked down"):
        trace.follow(lambda row: None, 1)


PARENT = """
import os, subprocess, sys
code = ("import sys; sys.path.insert(0, %r); from gdrkit.agent.running import trace as t; t._rings = list; "
        "t.remove_stale = list; "
        "t.follow(lambda row: print(row, flush=True), float('inf'), 0.05)" % sys.argv[1])
child = subprocess.Popen([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_with_the_process_that_started_it_even_if_that_is_killed():
    """Its descriptors go with it, and so do its probes."""
    source = str(Path(trace.__file__).parents[3])
    pipe = subprocess.PIPE
    parent = subprocess.Popen([sys.executable, "-I", "-c", PARENT, source], stdin=pipe, stdout=pipe)
    child = int(parent.stdout.readline())
    alive = not has_ended(child)
    parent.kill()
    parent.communicate()
    for _ in range(600):
        if has_ended(child):
            break
        threading.Event().wait(0.1)

    assert alive and has_ended(child)


def test_the_program_says_why_it_follows_nothing_or_what_it_follows():
    done = subprocess.run(
        [sys.executable, "-I", "-c", program("trace_probe"), "0.1"], capture_output=True, timeout=60
    )
    first = json.loads(done.stdout.splitlines()[0])

    assert first.keys() in ({"error"}, {"probes"}) and done.returncode == ("error" in first)
