"""Latency and bandwidth of messages of many sizes over one connection. One side leads, the other follows.

The time of one message is half of a ping-pong, so that all of it counts, including the filling of
pipelines. Streaming sends as many messages one after another, up to eight in flight, with one
acknowledgement at the end. The program waits for each message on the CPU; messages have no stream order.
Standard library only, as it is sent to other nodes.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from gdrkit.transport import Buffer, Connection, Transfer, buffer
from gdrkit.transport.native.cuda import cuda

STREAMED = 8
SECONDS_PER_SIZE = 0.6
FEWEST, MOST = 5, 400
_WAIT_SECONDS = 120.0
_COUNT_BYTES = 8
_PATTERN_BYTES, _MARK_BYTES = 1 << 20, 64


class SweepPoint(NamedTuple):
    """The results for one size. Times are one way; `tail_us` is the 99th percentile; GB/s are 10**9 bytes
    per second.
    """

    size_bytes: int
    repeats: int
    median_us: float
    tail_us: float
    gb_per_s: float
    streaming_gb_per_s: float
    checked: bool


class SweepMemory:
    """Allocates the memory for each size: `device` is a CUDA ordinal, None is host memory."""

    def __init__(self, device: int | None) -> None:
        self.device = device

    def take(self, size_bytes: int) -> Buffer:
        """New memory, filled with random bytes."""
        if self.device is None:
            found = buffer(bytearray(size_bytes))
        else:
            driver = cuda()
            driver.use(self.device)
            found = Buffer(driver.number("cuMemAlloc_v2", size_bytes), size_bytes, self.device, None)
        fill_pattern(found)
        return found

    def give_back(self, what: Buffer) -> None:
        if what.device is not None:
            cuda().call("cuMemFree_v2", what.address)


def fill_pattern(what: Buffer) -> bytes:
    """Fill memory with new random bytes, 1 MiB repeated; returns the first of them, to search for."""
    pattern = os.urandom(min(_PATTERN_BYTES, what.size_bytes))
    contents = bytearray((pattern * (what.size_bytes // len(pattern) + 1))[: what.size_bytes])
    source = ctypes.addressof((ctypes.c_char * len(contents)).from_buffer(contents))
    if what.device is None:
        ctypes.memmove(what.address, source, len(contents))
    else:
        driver = cuda()
        driver.use(what.device)
        driver.call("cuMemcpy", what.address, source, len(contents))
        # The copy of the last bytes may be in flight (CUDA, API synchronization).
        driver.call("cuStreamSynchronize", 0)
    return pattern[:_MARK_BYTES]


def lead(
    connection: Connection,
    memory: SweepMemory,
    sizes: tuple[int, ...],
    on_point: Callable[[SweepPoint], Any],
    seconds_per_size: float = SECONDS_PER_SIZE,
) -> list[SweepPoint]:
    """Run the side that measures; `on_point` is called after each size. The pings of a size take about
    `seconds_per_size`, and so does streaming. Raises TransportError.
    """
    points = []
    for size in sizes:
        what = memory.take(size)
        connection.register(what)
        connection.send(what, integrity=True).wait(_WAIT_SECONDS)
        connection.recv(what, stream=None).wait(_WAIT_SECONDS)
        begun = time.perf_counter()
        _ping(connection, what)
        once = time.perf_counter() - begun
        count = max(FEWEST, min(MOST, int(seconds_per_size / max(once, 1e-6))))
        connection.send(count.to_bytes(_COUNT_BYTES, "little")).wait(_WAIT_SECONDS)
        samples = []
        for _ in range(count):
            begun = time.perf_counter()
            _ping(connection, what)
            samples.append((time.perf_counter() - begun) / 2)
        _stream(connection, what, STREAMED, sending=True)
        begun = time.perf_counter()
        _stream(connection, what, max(count, STREAMED), sending=True)
        streamed = (time.perf_counter() - begun) / max(count, STREAMED)
        points.append(_point(size, samples, streamed))
        on_point(points[-1])
        memory.give_back(what)
    return points


def follow(connection: Connection, memory: SweepMemory, sizes: tuple[int, ...]) -> None:
    """Run the other side, which answers and checks the messages. Raises TransportError, including
    IntegrityFailed.
    """
    for size in sizes:
        what = memory.take(size)
        connection.register(what)
        connection.recv(what, stream=None).wait(_WAIT_SECONDS)
        connection.send(what, integrity=True).wait(_WAIT_SECONDS)
        _pong(connection, what)
        message = bytearray(_COUNT_BYTES)
        connection.recv(message).wait(_WAIT_SECONDS)
        count = int.from_bytes(message, "little")
        for _ in range(count):
            _pong(connection, what)
        _stream(connection, what, STREAMED, sending=False)
        _stream(connection, what, max(count, STREAMED), sending=False)
        memory.give_back(what)


def _ping(connection: Connection, what: Buffer) -> None:
    connection.send(what, stream=None).wait(_WAIT_SECONDS)
    connection.recv(what, stream=None).wait(_WAIT_SECONDS)


def _pong(connection: Connection, what: Buffer) -> None:
    connection.recv(what, stream=None).wait(_WAIT_SECONDS)
    connection.send(what, stream=None).wait(_WAIT_SECONDS)


def _stream(connection: Connection, what: Buffer, count: int, *, sending: bool) -> None:
    move = connection.send if sending else connection.recv
    in_flight: deque[Transfer] = deque()
    for _ in range(count):
        if len(in_flight) == STREAMED:
            in_flight.popleft().wait(_WAIT_SECONDS)
        in_flight.append(move(what, stream=None))
    for transfer in in_flight:
        transfer.wait(_WAIT_SECONDS)
    ack = bytearray(1)
    (connection.recv if sending else connection.send)(ack).wait(_WAIT_SECONDS)


def _point(size: int, samples: list[float], streamed: float) -> SweepPoint:
    median = statistics.median(samples)
    tail = sorted(samples)[int(len(samples) * 0.99)]
    return SweepPoint(
        size, len(samples), median * 1e6, tail * 1e6, size / median / 1e9, size / streamed / 1e9, True
    )
