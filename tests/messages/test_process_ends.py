"""Lines by which a process of a job shows that it stopped by itself."""

from __future__ import annotations

import pytest

from gdrkit import catalogue
from gdrkit.messages.process_ends import FirstFailure, first_failures, own_end


@pytest.mark.parametrize(
    "line",
    [
        "[rank13]: ValueError: could not broadcast input array from shape (4096,) into shape (2048,)",
        "(Worker pid=7) RuntimeError: CUDA error: an illegal memory access was encountered",
        "[default3]:KeyError: 'labels'",
        "[rank13]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "E1124 06:25:03.9 44 torch/distributed/elastic/api.py:874] failed (exitcode: -9) local_rank",
        "  traceback : Signal 11 (SIGSEGV) received by PID 99",
    ],
)
def test_an_error_of_its_own_or_a_signal_ends_a_process(line):
    assert own_end(line, catalogue.match(line)) is not None


@pytest.mark.parametrize(
    "line",
    [
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356",
        "[rank0]: RuntimeError: [/w/gloo/transport/tcp/pair.cc:547] Connection closed by peer",
        "torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: /default_pg/0//cuda//0",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "E1124 06:25:03.9 44 torch/distributed/elastic/api.py:874] failed (exitcode: -6) local_rank",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed.",
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        "  traceback : Signal 15 (SIGTERM) received by PID 99",
        "[ 9.1] Out of memory: Killed process 4711 (python3) total-vm:1kB",
        "loss 0.2, no Error: none",
    ],
)
def test_what_a_process_reports_of_its_peers_is_no_end_of_its_own(line):
    assert own_end(line, catalogue.match(line)) is None


def test_a_message_that_is_known_says_what_to_do():
    line = "[rank13]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    found = own_end(line, catalogue.match(line))
    assert found is not None and "less memory" in found.todo


TABLE = """\
Root Cause (first observed failure):
[0]:
  time      : 2026-11-26_03:11:05
  host      : train-worker-0
  rank      : 12 (local_rank: 4)
  exitcode  : {code} (pid: 95)
  error_file: <N/A>
  traceback : {why}
============================================================
"""


def first(code: str, why: str, before: str = "") -> list[FirstFailure]:
    return list(first_failures(enumerate((before + TABLE.format(code=code, why=why)).splitlines(), 1)))


@pytest.mark.parametrize("before", ["", "0: ", "(Worker pid=7) "])
def test_the_table_of_torchrun_names_the_process_that_was_killed(before: str):
    table = TABLE.format(code="-9", why="Signal 9 (SIGKILL) received by PID 95")
    lines = [before + line for line in table.splitlines()]
    (found,) = first_failures(enumerate(lines, 1))

    assert found.by_itself and found.line == 8
    assert "rank 12 on train-worker-0 was ended by Signal 9 (SIGKILL)" in found.words


def test_an_error_of_the_first_process_is_named_and_one_about_its_peers_is_not():
    raised = "Traceback (most recent call last):\n    File 'x'\n  {}"
    (own,) = first("1", raised.format("FileNotFoundError: [Errno 2] No such file: '/data/x'"))
    (peers,) = first("1", raised.format("torch.distributed.DistBackendError: NCCL error in: x.cpp:77"))

    assert own.by_itself and own.line == 10
    assert not peers.by_itself and "ended with exit code 1" in peers.words


@pytest.mark.parametrize("signal", ["6 (SIGABRT)", "15 (SIGTERM)"])
def test_a_process_that_a_watchdog_or_a_launcher_ends_is_not_the_first(signal: str):
    assert first(f"-{signal.split()[0]}", f"Signal {signal} received by PID 95") == []


def test_a_table_that_is_cut_off_names_nothing():
    assert list(first_failures(enumerate(TABLE.splitlines()[:4], 1))) == []
    assert list(first_failures(enumerate(TABLE.splitlines()[3:], 1))) == []


LAUNCHED = (
    "[2025-03-08 00:03:41,263] [ERROR] [launch.py:325:sigkill_handler] ['/opt/conda/bin/python3.10', '-u',"
    " 'train.py', '--local_rank=3', '--deepspeed', 'zero3.json'] exits with return code = {}"
)
"""DeepSpeed issue 3232; the line has the command of the last process that was started."""


@pytest.mark.parametrize(
    ("prefix", "code", "words"),
    [
        ("node2: ", -9, "a process on node2 was ended by SIGKILL"),
        ("10.0.0.7: ", -11, "a process on 10.0.0.7 was ended by SIGSEGV"),
        ("", -7, "a process was ended by SIGBUS"),
        ("worker-1: ", 1, "a process on worker-1 ended with return code 1"),
    ],
)
def test_the_launcher_of_deepspeed_says_how_a_process_ended_and_not_which_rank(prefix, code, words):
    (found,) = first_failures([(4, prefix + LAUNCHED.format(code))])
    assert found.words == f"By DeepSpeed's launcher, {words}"
    assert found.by_itself == (code < 0)
    assert ("--local_rank" in found.todo) == (code < 0), "the line's rank is not said to have failed"


@pytest.mark.parametrize("code", [-2, -6, -15, 0])
def test_a_job_that_its_owner_or_its_watchdog_ended_has_no_first_failure(code):
    assert list(first_failures([(1, LAUNCHED.format(code))])) == []
