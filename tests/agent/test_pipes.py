"""Pipes to processes that hang, never read, or never stop: each call ends, and with its reason."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from gdrkit.agent import pipes
from tests.work import within


@contextlib.contextmanager
def pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", 0) as source, os.fdopen(writer, "wb", 0) as target:
        yield source, target


def soon() -> float:
    return time.monotonic() + 0.2


def late() -> float:
    return time.monotonic() + 60


def test_all_of_a_large_content_arrives():
    content, found = os.urandom(1_000_000), []
    with pipe() as (source, target):
        thread = threading.Thread(target=lambda: found.append(pipes.receive(source, 1_000_000, late())))
        thread.start()
        pipes.send(target, content, late())
        target.close()
        thread.join(60)
    assert found == [content]


def test_a_reader_that_reads_nothing_ends_sending_at_the_deadline():
    with pipe() as (_, target), within(30):
        target.write(bytes(5000))  # so that some room is left, but not enough
        with pytest.raises(TimeoutError, match=r"^the other end does not read$"):
            pipes.send(target, bytes(1 << 17), soon())


def test_a_reader_that_is_gone_ends_sending():
    with pipe() as (source, target):
        source.close()
        with pytest.raises(BrokenPipeError):
            pipes.send(target, b"x", late())


def test_a_writer_that_writes_nothing_ends_receiving_at_the_deadline():
    with pipe() as (source, target), within(30):
        target.write(b"some")
        with pytest.raises(TimeoutError, match=r"^the other end does not answer$"):
            pipes.receive(source, 100, soon())


@pytest.mark.parametrize(("limit", "ends"), [(9, False), (10, True)])
def test_content_up_to_the_limit_is_received(limit, ends):
    with pipe() as (source, target):
        target.write(b"0123456789")
        target.close()
        if ends:
            assert pipes.receive(source, limit, late()) == b"0123456789"
        else:
            with pytest.raises(OverflowError, match=r"^more than 9 bytes$"):
                pipes.receive(source, limit, late())


def test_receiving_ends_at_a_word_though_the_pipe_stays_open():
    with pipe() as (source, target), within(30):
        target.write(b"a line\nand more")
        assert pipes.receive(source, 100, late(), until=b"\n") == b"a line\nand more"
        target.write(b"no end")
        with pytest.raises(TimeoutError):
            pipes.receive(source, 100, soon(), until=b"\n")
        with pytest.raises(TimeoutError):
            pipes.receive(source, 100, soon())  # without a word nothing but the end ends it


def test_a_writer_that_never_stops_is_too_slow():
    with pipe() as (source, target), within(30):
        target.write(b"x")
        with pytest.raises(TimeoutError, match=r"^too slow$"):
            pipes.receive(source, 100, time.monotonic() - 1)


SLEEPS = (
    "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print(1, flush=True); time.sleep(60)"
)


@pytest.mark.parametrize("end", [pipes.kill_group, pipes.end_group])
def test_a_process_ends_with_its_children(end):
    command = [sys.executable, "-c", SLEEPS]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    with process, within(30):
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        end(process)
        assert process.returncode == -9
        assert process.stdout.read() == b""  # the child has closed it too


def test_a_process_has_its_time_to_end():
    command = [sys.executable, "-c", "import time; time.sleep(0.2)"]
    with subprocess.Popen(command, start_new_session=True) as process:
        pipes.end_group(process, 60)
        assert process.returncode == 0


def test_a_process_that_has_ended_is_no_error():
    with subprocess.Popen(["true"], start_new_session=True) as process:
        process.wait(30)
        pipes.kill_group(process)
        assert process.returncode == 0


def test_a_process_of_our_own_group_ends_alone():
    """It leads no group of its own, so there is none to kill."""
    with subprocess.Popen(["sleep", "60"]) as process, within(30):
        pipes.kill_group(process)
        assert process.returncode == -9


def child(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)


def test_a_process_that_ends_gives_its_code_and_its_output():
    assert pipes.output_of(child("echo done; exit 3"), 100, late()) == (3, b"done\n")


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("sleep 60 & exec sleep 60", TimeoutError),
        ("exec >/dev/null; sleep 60", TimeoutError),
        ("exec yes", OverflowError),
    ],
    ids=["says nothing", "closes its output and goes on", "prints without end"],
)
def test_a_process_that_does_not_end_is_killed_with_its_children(script, error):
    running = child(script)
    with pytest.raises(error):
        pipes.output_of(running, 100, soon())

    assert running.returncode in (-signal.SIGKILL, -signal.SIGPIPE)
    with within(10):
        while alive(running.pid):
            time.sleep(0.02)


def alive(group: int) -> list[str]:
    """The processes of a group that have not ended: proc_pid_stat(5). Of a zombie only its entry is left."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, _, pgrp = place.read_text().rpartition(")")[2].split()[:3]
            found += [place.parent.name] if int(pgrp) == group and state != "Z" else []
    return found


def test_pipes_with_high_numbers_are_read_and_written():
    """select(2) refuses descriptors above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("ulimit -Hn is below 1200")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    with contextlib.ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        read, write = os.pipe()
        high_read, high_write = (fcntl.fcntl(end, fcntl.F_DUPFD, 1100) for end in (read, write))
        os.close(read)
        os.close(write)
        reader, writer = os.fdopen(high_read, "rb", 0), os.fdopen(high_write, "wb", 0)
        with reader, writer:
            assert min(reader.fileno(), writer.fileno()) >= 1100
            assert pipes.ready([reader], 0) == []
            pipes.send(writer, b"ready\n", time.monotonic() + 5)
            assert pipes.ready([reader], 0) == [reader]
            assert pipes.receive(reader, 100, time.monotonic() + 5, until=b"\n") == b"ready\n"
