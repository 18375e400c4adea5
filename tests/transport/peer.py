"""The other process of a test: a separate program that can be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from gdrkit.transport import Connection, TransportError, generate_key, listen
from tests.transport import driver_model

PRELUDE = """
import os, sys, time
from gdrkit.transport import *
port, key, paths = int(sys.argv[1]), bytes.fromhex(sys.argv[2]), tuple(sys.argv[3].split(","))
gpu = int(sys.argv[4]) if sys.argv[4] else None
c = connect("127.0.0.1", port, key=key, paths=paths, gpu=gpu, timeout=20)
"""


def names() -> set[str]:
    """The names of our files in shared memory, including those of tests that run at the same time; not of
    folders, since temporary ones are there too."""
    with os.scandir("/dev/shm") as found:
        return {one.name for one in found if one.name.startswith("gdrkit-") and one.is_file()}


def left_behind(before: set[str]) -> set[str]:
    """New names that remain. Names of tests that run at the same time disappear again."""
    new, until = names() - before, time.monotonic() + 60
    while new and time.monotonic() < until:
        time.sleep(0.01)
        new &= names()
    return new


class Peer:
    """A connection and the process at its other end."""

    def __init__(self, connection: Connection, process: subprocess.Popen[bytes]) -> None:
        self.connection, self.process = connection, process

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def finish(self) -> int:
        return self.process.wait(20)


@contextlib.contextmanager
def peer(
    program: str,
    *paths: str,
    gpus: tuple[int | None, int | None] = (None, None),
    model: int | None = None,
) -> Iterator[Peer]:
    """A process that connects as `c` and runs `program`; it is killed at the end of the block.

    `gpus`: our GPU and its GPU. `model`: a seed with which the process uses `driver_model` instead of
    libcuda.
    """
    key = generate_key()
    with listen("127.0.0.1", key=key, paths=paths, gpu=gpus[0]) as listener:
        arguments = [
            sys.executable,
            "-c",
            ("" if model is None else driver_model.PRELUDE) + PRELUDE + program,
            str(listener.address[1]),
            key.hex(),
            ",".join(paths),
            "" if gpus[1] is None else str(gpus[1]),
            str(model),
        ]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE)
        try:
            with listener.accept(20) as connection:
                yield Peer(connection, process)
        finally:
            if process.stdin:
                process.stdin.close()
            process.kill()
            process.wait(10)


@contextlib.contextmanager
def running(work: Callable[[], object]) -> Iterator[list[Any]]:
    """What a function in another thread returns or raises, complete after the block."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except TransportError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield found
    thread.join(60)
    assert found, "it did not end"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
