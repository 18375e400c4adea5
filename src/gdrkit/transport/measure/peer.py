"""The other side of a measurement: a process on this node, or on another node over ssh.

It reads its task as one line of JSON from standard input, so that the task, and above all the key, does not
appear in the process list. It ends when its connection ends.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from gdrkit.transport import TransportError, connect
from gdrkit.transport.measure import prove_peer
from gdrkit.transport.measure.sweep import SweepMemory, follow
from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable

TASK_LIMIT = 1 << 20  # letters of a task's line: some hundreds are usual


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
    ) as connection:
        if task.rounds:
            prove_peer.follow(connection, SweepMemory(task.gpu), task.sizes[0], tuple(task.rounds))
        else:
            follow(connection, SweepMemory(task.gpu), tuple(task.sizes))


def main() -> int:
    try:
        run(PeerTask(**json.loads(sys.stdin.readline(TASK_LIMIT))))
    except (TransportError, CudaNotAvailable, CudaError) as error:
        sys.stderr.write(f"the other side: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
