"""Pipes to processes that may be hostile or hang: each call ends at a deadline and has a limit.

A deadline is a time of time.monotonic(). The pipes must not be read or written in any other way.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import IO

BLOCK_BYTES = 1 << 16
_KILLED_WAIT_S = 0.5
_LONGEST_WAIT_MS = (1 << 31) - 1
"""The timeout of poll(2) is an int."""


def ready(pipes: Sequence[IO[bytes]], wait_s: float, event: int = select.POLLIN) -> list[IO[bytes]]:
    """The pipes that can be read (or with POLLOUT written) without waiting, or whose other end is closed.

    select(2) would take no descriptor above 1,023, which a process with many pipes has."""
    poll = select.poll()
    for pipe in pipes:
        poll.register(pipe, event)
    found = {descriptor for descriptor, _ in poll.poll(min(1000 * wait_s, _LONGEST_WAIT_MS))}
    return [pipe for pipe in pipes if pipe.fileno() in found]


def send(pipe: IO[bytes], content: bytes, deadline: float) -> None:
    """Write all of it. Raises TimeoutError if the other end does not read, BrokenPipeError as write(2)."""
    os.set_blocking(pipe.fileno(), False)
    left = memoryview(content)
    while left:
        if not ready([pipe], _remaining(deadline), select.POLLOUT):
            raise TimeoutError("the other end does not read")
        left = left[os.write(pipe.fileno(), left) :]


def receive(pipe: IO[bytes], limit_bytes: int, deadline: float, until: bytes = b"") -> bytes:
    """What arrives until the end of the pipe, up to a limit, and up to `until` in one of its blocks.

    Raises TimeoutError if none of these comes before the deadline, OverflowError for more than the limit."""
    blocks = []
    left = limit_bytes
    while True:
        if not ready([pipe], _remaining(deadline)):
            raise TimeoutError("the other end does not answer")
        block = os.read(pipe.fileno(), BLOCK_BYTES)
        blocks.append(block)
        left -= len(block)
        if not block or (until and until in block):
            return b"".join(blocks)
        if left < 0 or time.monotonic() > deadline:
            raise OverflowError(f"more than {limit_bytes} bytes") if left < 0 else TimeoutError("too slow")


def output_of(process: subprocess.Popen[bytes], limit_bytes: int, deadline: float) -> tuple[int, bytes]:
    """The exit code and the standard output of a process with a session of its own, which has then ended.

    Raises TimeoutError if it does not end before the deadline, OverflowError for more than the limit."""
    assert process.stdout
    try:
        output = receive(process.stdout, limit_bytes, deadline)
        return process.wait(_remaining(deadline)), output
    except subprocess.TimeoutExpired:
        raise TimeoutError("it does not end") from None
    finally:
        process.stdout.close()
        kill_group(process)


def end_group(process: subprocess.Popen[bytes], wait_s: float = 0.0) -> None:
    """Kill a process and its children, which share its session; first give it some time to end, unless this
    process is interrupted meanwhile."""
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
    finally:
        kill_group(process)


def terminate_group(process: subprocess.Popen[bytes]) -> None:
    """Ask a process and its children, which share its session, to end; does not wait. One that is stopped
    goes on, so that it can end: signal(7)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        os.killpg(process.pid, signal.SIGCONT)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, which share its session.

    Does not wait long for one that hangs in the kernel."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    try:
        process.wait(_KILLED_WAIT_S)
    except subprocess.TimeoutExpired:
        process.returncode = -signal.SIGKILL  # so that Python does not wait for it at exit


def _remaining(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
