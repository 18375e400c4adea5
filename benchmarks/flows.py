"""Several messages in flight, one way and both ways at once: our paths and NCCL's, in one run.

    python -m benchmarks.flows [--rounds N] [--only A,B] [--json FILE]

For each path and size: GB/s one way with 1, 2, 4 and 8 messages in flight, and the sum of both ways with
8 in each. A process starts the next message when the oldest one in flight is done; with NCCL an event
after it shows that. Both ways at once, NCCL has a send and a receive in one group. The time ends with an
acknowledgement. The medians of `--rounds` turns are printed. Needs two NVIDIA GPUs, and PyTorch for NCCL.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.transport import NCCL
from gdrkit.transport import connect, generate_key, listen
from gdrkit.transport.measure.sweep import SweepMemory

SIZES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)
SHAPES = {"1": (1, False), "2": (2, False), "4": (4, False), "8": (8, False), "both": (8, True)}
OURS = ("peer", "shared", "tcp")
SECONDS, MOST = 0.1, 400
_COUNT_BYTES = 4
Rates = dict[str, dict[str, float]]


class Ours:
    """One end of a connection of ours."""

    def __init__(self, path: str, rank: int, port: int, key: bytes) -> None:
        if rank == 0:
            with listen("127.0.0.1", port, key=key, gpu=rank, paths=(path,)) as listener:
                self._connection = listener.accept()
        else:
            self._connection = connect("127.0.0.1", port, key=key, gpu=rank, paths=(path,))
        self._memory = SweepMemory(rank)

    def begin(self, size: int) -> None:
        self._out, self._into = (self._memory.take(size) for _ in range(2))
        for what in (self._out, self._into):
            self._connection.register(what)

    def end(self) -> None:
        self._memory.give_back(self._out)
        self._memory.give_back(self._into)

    def start(self, sends: bool, receives: bool) -> Callable[[], object]:
        """Start a message, or one each way, and return what waits for it."""
        moves = [self._connection.recv(self._into, stream=None)] if receives else []
        moves += [self._connection.send(self._out, stream=None)] if sends else []
        return lambda: [move.wait(60) for move in moves]

    def agree(self, count: int) -> int:
        """The first process's number."""
        text = bytearray(count.to_bytes(_COUNT_BYTES, "little"))
        (self._connection.send if count else self._connection.recv)(text).wait(60)
        return int.from_bytes(text, "little")


class Nccl:
    """One rank of NCCL."""

    def __init__(self, rank: int, port: int) -> None:
        import torch  # type: ignore[import-not-found, unused-ignore]
        import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

        self._torch, self._dist, self._other = torch, dist, 1 - rank
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)

    def begin(self, size: int) -> None:
        self._out, self._into = (
            self._torch.zeros(size, dtype=self._torch.uint8, device="cuda") for _ in "ab"
        )

    def end(self) -> None:
        del self._out, self._into

    def start(self, sends: bool, receives: bool) -> Callable[[], object]:
        operations = [self._dist.P2POp(self._dist.isend, self._out, self._other)] if sends else []
        operations += [self._dist.P2POp(self._dist.irecv, self._into, self._other)] if receives else []
        for work in self._dist.batch_isend_irecv(operations):
            work.wait()  # only lets the current stream wait
        event = self._torch.cuda.Event()
        event.record()
        synchronize: Callable[[], object] = event.synchronize
        return synchronize

    def agree(self, count: int) -> int:
        number = self._torch.tensor([count], device="cuda")
        (self._dist.send if count else self._dist.recv)(number, self._other)
        return int(number.item())


def rates(end: Ours | Nccl, rank: int) -> Rates:
    found: Rates = {}
    for size in SIZES:
        end.begin(size)
        found[str(size)] = {name: rate(end, rank, size, *shape) for name, shape in SHAPES.items()}
        end.end()
    return found


def rate(end: Ours | Nccl, rank: int, size: int, depth: int, both: bool) -> float:
    """GB/s, the sum of both ways."""

    def flow(count: int) -> float:
        begun, in_flight = time.perf_counter(), deque[Callable[[], object]]()
        for _ in range(count):
            if len(in_flight) == depth:
                in_flight.popleft()()
            in_flight.append(end.start(both or rank == 0, both or rank == 1))
        for finish in in_flight:
            finish()
        end.agree(rank)  # from the second to the first
        return time.perf_counter() - begun

    flow(depth)
    seconds = flow(depth) / depth
    count = end.agree(0 if rank else max(depth + 2, min(MOST, int(SECONDS / seconds))))
    return size * count * (1 + both) / flow(count) / 1e9


def process(name: str, rank: int, port: int, key: str) -> None:
    """Measure once for each line of standard input; the first process prints the rates."""
    end = Ours(name, rank, port, bytes.fromhex(key)) if name in OURS else Nccl(rank, port)
    for _ in sys.stdin:
        found = rates(end, rank)
        if rank == 0:
            print(json.dumps(found), flush=True)
    os._exit(0)


def start(name: str) -> list[subprocess.Popen[str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command, key = (sys.executable, "-m", "benchmarks.flows", "--process", name), generate_key().hex()
    return [
        subprocess.Popen(
            [*command, str(rank), str(port), key],
            env={**os.environ, **NCCL.get(name, ({}, ""))[0]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def once(ends: list[subprocess.Popen[str]]) -> Rates:
    for end in ends:
        assert end.stdin
        end.stdin.write("once\n")
        end.stdin.flush()
    assert ends[0].stdout
    found: Rates = json.loads(next(line for line in ends[0].stdout if line.startswith("{")))
    return found


def table(found: dict[str, list[Rates]]) -> str:
    lines = [f"{'path':<22}{'bytes':>12}" + "".join(f"{name:>9}" for name in SHAPES)]
    for name, turns in found.items():
        for size in map(str, SIZES):
            numbers = [statistics.median(turn[size][shape] for turn in turns) for shape in SHAPES]
            lines.append(f"{name:<22}{size:>12}" + "".join(f"{number:>9.2f}" for number in numbers))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--rounds", type=int, default=1, help="turns, of which medians are printed (1)")
    parser.add_argument("--only", default="", help="comma-separated beginnings of the names of rows")
    parser.add_argument("--process", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        name, rank, port, key = options.process
        process(name, int(rank), int(port), key)
        return
    names = [name for name in (*OURS, *NCCL) if name.startswith(tuple(options.only.split(",")))]
    found: dict[str, list[Rates]] = {name: [] for name in names}
    with ExitStack() as stack:
        started: dict[str, Any] = {}
        for name in names:
            started[name] = start(name)
            for end in started[name]:
                stack.callback(end.kill)
        for _ in range(options.rounds):
            for name in names:
                found[name].append(once(started[name]))
                if options.json:
                    options.json.write_text(json.dumps(found, indent=1))
    print(table(found))


if __name__ == "__main__":
    main()
