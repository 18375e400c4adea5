"""Messages of random sizes between two processes for a long time, with peers that die and reconnect.

    python -m benchmarks.soak [--minutes N] [--paths A,B] [--gpus N,N] [--pause S] [--json FILE]

Each session connects on one path, and both sides send and receive the same random messages, several in
flight, from host memory and, with `--gpus`, from a GPU each, with and without stream order; every received
byte is checked. A session ends in one of three ways: in good order, with the death of the other process
(SIGKILL), or with a message that is never sent, whose wait times out. Then the next one connects.

CUDA_DEVICE_MAX_CONNECTIONS=1 makes all streams share one hardware queue, which is where messages have stood
still: docs/transport.md has those runs.

A byte that differs, a wait of more than a minute, an error that does not belong to the session's end, and a
process that does not end are failures, and exit code 1. The last line says what memory and how many file
descriptors and threads this process had early and at the end.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path

from gdrkit.agent.native.cuda_abi import REGISTER_PORTABLE, STREAM_NON_BLOCKING
from gdrkit.transport import Buffer, Connection, Transfer, TransportError, connect, generate_key, listen
from gdrkit.transport.native.cuda import cuda

ENDS = ("closed", "killed", "timed out")
MESSAGES, IN_FLIGHT, LARGEST = 60, 8, 8 << 20
WAIT_SECONDS = 60.0
_EARLY_SESSIONS = 20
_DEATH_SECONDS = 10.0
_PERIOD = 65_521  # a prime: no piece of a message is a multiple of it


class Pool:
    """The memory of messages, made once. GPU memory is filled and read through pinned memory and a stream of
    its own, which no message waits in.
    """

    def __init__(self, gpu: int | None) -> None:
        self.gpu, self.streams = gpu, list[int | None]([None])
        self.host = [
            Buffer(address(one), LARGEST, None, one) for one in map(bytearray, [LARGEST] * IN_FLIGHT)
        ]
        self.device: list[Buffer] = []
        if gpu is not None:
            driver = cuda()
            driver.use(gpu)
            self._pinned = driver.number("cuMemHostAlloc", LARGEST, REGISTER_PORTABLE)
            self._stream = driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
            self.streams += [driver.number("cuStreamCreate", STREAM_NON_BLOCKING) for _ in range(2)]
            self.device = [
                Buffer(driver.number("cuMemAlloc_v2", LARGEST), LARGEST, gpu, None) for _ in range(IN_FLIGHT)
            ]

    def fill(self, what: Buffer, number: int) -> None:
        content = pattern(number, what.size_bytes)
        ctypes.memmove(what.address if what.device is None else self._pinned, content, what.size_bytes)
        if what.device is not None:
            self._copy(what.address, self._pinned, what.size_bytes)

    def holds(self, what: Buffer, number: int) -> bool:
        found = what.address if what.device is None else self._pinned
        if what.device is not None:
            self._copy(self._pinned, what.address, what.size_bytes)
        return ctypes.string_at(found, what.size_bytes) == pattern(number, what.size_bytes)

    def _copy(self, destination: int, source: int, size: int) -> None:
        if size:
            # Not fewer than two: with one hardware queue a byte would wait for streams that wait, and the
            # message that they wait for may be sent after it.
            cuda().copy(destination, source, max(2, size), self._stream)
            cuda().call("cuStreamSynchronize", self._stream)


def address(memory: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def pattern(number: int, size: int) -> bytes:
    block = random.Random(number).randbytes(_PERIOD)
    return (block * (size // _PERIOD + 1))[:size]


def exchange(connection: Connection, pool: Pool, side: int, seed: int) -> int:
    """Run one side; the number of its messages. Raises AssertionError for a byte that differs."""
    draw, own = random.Random(seed), random.Random(seed + side + 1)
    waiting: deque[tuple[Transfer, Buffer, int, bool]] = deque()
    for number in range(MESSAGES):
        size = min(LARGEST, int(2 ** draw.uniform(0, 23.1)) - draw.randrange(2))
        sends = draw.randrange(2) == side
        while len(waiting) >= own.randrange(1, IN_FLIGHT):
            check(pool, waiting)
        memories = pool.device if pool.device and own.random() < 0.7 else pool.host
        what = memories[number % IN_FLIGHT].part(0, size)
        if sends:
            pool.fill(what, seed + number)
        # Without a stream a byte into a GPU would wait for the streams that wait: Cuda.copy.
        streams = pool.streams if sends or size != 1 else pool.streams[1:]
        stream = own.choice(streams) if what.device is not None else None
        move = connection.send if sends else connection.recv
        waiting.append((move(what, stream=stream), what, seed + number, sends))
    while waiting:
        check(pool, waiting)
    return MESSAGES


def check(pool: Pool, waiting: deque[tuple[Transfer, Buffer, int, bool]]) -> None:
    transfer, what, number, sent = waiting.popleft()
    transfer.wait(WAIT_SECONDS)
    assert sent or pool.holds(what, number), f"message {number}: {what.size_bytes} bytes differ"


def follow(port: int, key: str, path: str, gpu: int | None) -> None:
    """The other process: it reads a seed for each session from standard input."""
    pool = Pool(gpu)
    for line in sys.stdin:
        seed, end = json.loads(line)
        with connect("127.0.0.1", port, key=bytes.fromhex(key), gpu=gpu, paths=(path,)) as connection:
            exchange(connection, pool, 1, seed)
            # Both have everything now: a message that was sent may be lost when its sender is killed.
            connection.recv(bytearray(1)).wait(WAIT_SECONDS)
            if end == "killed":
                connection.send(pool.host[0], stream=None)
                os.kill(os.getpid(), signal.SIGKILL)
            if end == "timed out":
                connection.send(b"x").wait(WAIT_SECONDS)
                with suppress(TransportError):
                    connection.recv(bytearray(1)).wait(WAIT_SECONDS)
    os._exit(0)


class Other:
    """The other process on one path, started again when it was killed."""

    def __init__(self, port: int, key: str, path: str, gpu: int | None) -> None:
        self._command = [sys.executable, "-m", "benchmarks.soak", "--follow", str(port), key, path]
        self._command += ["-1" if gpu is None else str(gpu)]
        self._process: subprocess.Popen[str] | None = None

    def begin(self, seed: int, end: str) -> None:
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, text=True)
        assert self._process.stdin
        self._process.stdin.write(json.dumps([seed, end]) + "\n")
        self._process.stdin.flush()

    def died(self) -> None:
        assert self._process
        assert self._process.wait(_DEATH_SECONDS) == -signal.SIGKILL
        self._process = None

    def close(self) -> None:
        if self._process:
            assert self._process.stdin
            self._process.stdin.close()
            assert self._process.wait(_DEATH_SECONDS) == 0


def session(connection: Connection, pool: Pool, seed: int, end: str) -> int:
    """Our side of a session. Raises AssertionError, and TransportError where the session should be well."""
    with connection:
        done = exchange(connection, pool, 0, seed)
        connection.send(b"x").wait(WAIT_SECONDS)
        if end == "closed":
            return done
        if end == "timed out":  # which breaks the connection: what was sent before may be lost then
            connection.recv(bytearray(1)).wait(WAIT_SECONDS)
        begun = time.monotonic()
        try:  # of another size than what is sent, if anything is: the bytes never arrive
            transfer = connection.recv(pool.host[0], stream=None)
            transfer.wait(0.2 if end == "timed out" else WAIT_SECONDS)
            transfer = connection.recv(pool.host[1], stream=None)
            transfer.wait(WAIT_SECONDS)
        except TransportError:
            assert time.monotonic() - begun < _DEATH_SECONDS, "the end was seen late"
            return done
    raise AssertionError("a message arrived that nobody sent")


def usage() -> dict[str, float]:
    """Peak memory in MB, present memory in MB, file descriptors and threads."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return {
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "memory_mb": pages * resource.getpagesize() / 1e6,
        "descriptors": len([*Path("/proc/self/fd").iterdir()]),
        "threads": len([*Path("/proc/self/task").iterdir()]),
    }


def soak(
    paths: list[str], gpus: tuple[int | None, int | None], minutes: float, pause: float
) -> dict[str, object]:
    key, draw, pool = generate_key(), random.Random(1), Pool(gpus[0])
    counts, messages, sessions, early = Counter[str](), 0, 0, usage()
    deadline = time.monotonic() + minutes * 60
    listeners = {path: listen("127.0.0.1", key=key, gpu=gpus[0], paths=(path,)) for path in paths}
    others = {path: Other(one.address[1], key.hex(), path, gpus[1]) for path, one in listeners.items()}
    while time.monotonic() < deadline:
        path, end, seed = draw.choice(paths), draw.choice(ENDS), draw.randrange(1 << 30)
        others[path].begin(seed, end)
        messages += session(listeners[path].accept(WAIT_SECONDS), pool, seed, end)
        if end == "killed":
            others[path].died()
        counts[f"{path}, {end}"] += 1
        sessions += 1
        if sessions == _EARLY_SESSIONS:
            early = usage()
        time.sleep(pause)
    for other in others.values():
        other.close()
    for one in listeners.values():
        one.close()
    return {"sessions": dict(sorted(counts.items())), "messages": messages, "early": early, "end": usage()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--paths", default="tcp,shared", help="comma-separated")
    parser.add_argument("--gpus", default="", help="the GPU of each process, as 0,1")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between sessions")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--follow", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        port, key, path, gpu = options.follow
        follow(int(port), key, path, None if gpu == "-1" else int(gpu))
        return
    first, second = options.gpus.split(",") if options.gpus else (None, None)
    gpus = (None if first is None else int(first), None if second is None else int(second))
    found = soak(options.paths.split(","), gpus, options.minutes, options.pause)
    for name, value in found.items():
        print(f"{name}: {value}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
