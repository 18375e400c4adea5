"""The other process of a test: a program of its own, which can be killed and shares nothing but the wire."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

from gdrkit.transport import Connection, generate_key, listen

PRELUDE = """
import os, sys, time
from gdrkit.transport import *
port, key, paths = int(sys.argv[1]), bytes.fromhex(sys.argv[2]), tuple(sys.argv[3].split(","))
c = connect("127.0.0.1", port, key=key, paths=paths, timeout=20)
"""


class Peer:
    """A connection, and the process at its other end."""

    def __init__(self, connection: Connection, process: subprocess.Popen[bytes]) -> None:
        self.connection, self.process = connection, process

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def finish(self) -> int:
        return self.process.wait(20)


@contextlib.contextmanager
def peer(program: str, *paths: str) -> Iterator[Peer]:
    """A process that connects as `c` and runs `program`; ended with the block."""
    key = generate_key()
    with listen("127.0.0.1", key=key, paths=paths) as door:
        arguments = [
            sys.executable,
            "-c",
            PRELUDE + program,
            str(door.address[1]),
            key.hex(),
            ",".join(paths),
        ]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE)
        try:
            with door.accept(20) as connection:
                yield Peer(connection, process)
        finally:
            if process.stdin:
                process.stdin.close()
            process.kill()
            process.wait(10)
