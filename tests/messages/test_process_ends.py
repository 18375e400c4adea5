"""Lines by which a process of a job shows that it stopped by itself."""

from __future__ import annotations

import pytest

from gdrkit import catalogue
from gdrkit.messages.process_ends import own_end


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
