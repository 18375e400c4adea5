"""The other side of a measurement: a process on this node, or on another node over ssh; of a pair of
other nodes, both sides.

It reads its task as one line of JSON from standard input, so that the task, and above all the key, does not
appear in the process list. It ends when its connection ends; one of a pair of other nodes also when its
standard input ends, so that it does not outlive the command that started it.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import sys
import threading
from contextlib import suppress
from typing import NamedTuple

from gdrkit.transport import TransportError, connect, listen
from gdrkit.transport.measure import prove_peer
from gdrkit.transport.measure.sweep import SweepMemory, follow, lead
from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable

TASK_LIMIT = 1 << 20  # letters of a task's line: some hundreds are usual
FAILED = "the other side: "
"""The prefix of the line on standard error that gives this program's reason for failing."""
_DISCARD = 9  # RFC 863; nothing is sent to it


class PeerTask(NamedTuple):
    """Where to connect, and what to measure. `gpu` None is host memory."""

    host: str
    port: int
    key: str
    path: str
    sizes: list[int]
    gpu: int | None = None
    device: str | None = None
    rounds: tuple[int, ...] | list[int] = ()  # a proof's messages in each round; empty for a measurement
    wait_s: float = 30.0  # for the connection
    pair: str = ""  # "listen" or "connect" for one of two other nodes
    network: str = ""  # listen on this node's address in it instead of on `host`

    def line(self) -> bytes:
        """The task as one line for standard input."""
        return json.dumps(self._asdict()).encode() + b"\n"


def run(task: PeerTask) -> None:
    """Connect and run the follower's side. Raises TransportError."""
    with connect(
        task.host,
        task.port,
        key=bytes.fromhex(task.key),
        gpu=task.gpu,
        device=task.device,
        paths=(task.path,),
        timeout=task.wait_s,
    ) as connection:
        if task.rounds:
            prove_peer.follow(connection, SweepMemory(task.gpu), task.sizes[0], tuple(task.rounds))
        else:
            follow(connection, SweepMemory(task.gpu), tuple(task.sizes))


def serve(task: PeerTask) -> None:
    """Listen, write the address as a line, run the leader's side, and write its points as another line.

    Raises TransportError, OSError."""
    host = own_address(task.network) if task.network else task.host
    key = bytes.fromhex(task.key)
    with listen(host, key=key, gpu=task.gpu, device=task.device, paths=(task.path,)) as listener:
        _write_line(listener.address)
        with listener.accept(task.wait_s) as connection:
            points = lead(connection, SweepMemory(task.gpu), tuple(task.sizes), lambda point: None)
    _write_line(points)


def own_address(network: str) -> str:
    """This node's address in a network. Raises TransportError if it has none."""
    wanted = ipaddress.ip_network(network)
    family = socket.AF_INET if wanted.version == 4 else socket.AF_INET6
    found = ""
    with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):  # no route
        probe.connect((str(next(iter(wanted.hosts()))), _DISCARD))  # sends nothing: connect(2)
        found = str(probe.getsockname()[0])
    if not found or ipaddress.ip_address(found) not in wanted:
        raise TransportError(f"this node has no address in {network}")
    return found


def _write_line(content: object) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def _end_with_input() -> None:
    """End this process once its standard input ends, even during a wait."""
    while sys.stdin.read(1):
        continue
    os._exit(1)


def main() -> int:
    try:
        task = PeerTask(**json.loads(sys.stdin.readline(TASK_LIMIT)))
        if task.pair:
            threading.Thread(target=_end_with_input, daemon=True).start()
        (serve if task.pair == "listen" else run)(task)
    except (TransportError, CudaNotAvailable, CudaError) as error:
        sys.stderr.write(f"{FAILED}{error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{FAILED}{error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
