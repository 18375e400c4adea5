"""Within a node: each GPU copies to or from pinned memory that both processes map. The path `shared`.

The sender's stream waits for room in a ring and copies a chunk into it, which is then counted; the
receiver's waits for the count, copies it out, and counts in turn. All of a message is queued at once,
and the CPU has no part in it. Host memory takes the same ring, moved by a thread.

Counting in the stream that copies would stop its copy engine for 3 us each time (measured on an H200),
so that is done by another stream, except for short messages.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import PeerLost, TransportError
from gdrkit.transport.operation import Operation, Threaded, rest
from gdrkit.transport.ring import DESCRIPTORS, Barrier, Ring, reached, units

_WRAP = 1 << 32
_SHORT = 2  # chunks: up to that, fewer calls save more than the pauses cost
_DRAIN_SECONDS = 10.0  # far more than a ring's contents take to copy
_LOOK_EVERY = 256  # polls between looks at whether the GPU has failed


class SharedChannel:
    """Messages through two rings, one for each direction."""

    name = "shared"

    def __init__(self, out: Ring, into: Ring) -> None:
        self._out, self._into = _Half(out, sending=True), _Half(into, sending=False)

    def transmit(self, what: Buffer, stream: int, crc32: int | None) -> Operation:
        self._prepare(what.device)
        return self._out.begin(what, stream, crc32)

    def receive(self, into: Buffer, stream: int) -> Operation:
        self._prepare(into.device)
        return self._into.begin(into, stream, None)

    def _prepare(self, device: int | None) -> None:
        # Both directions at once: to pin memory may wait for a stream that waits for the other direction.
        if device is not None:
            self._out.prepare(device)
            self._into.prepare(device)

    def abandon(self) -> None:
        self._out.abandon()
        self._into.abandon()

    def close(self) -> None:
        self._out.close()
        self._into.close()


class _Half:
    """One direction, seen from one side. Chunks are numbered when they are queued, so the two kinds of
    movers (a GPU's streams, a thread) may not be at work at once: a change of kind waits for what is
    under way.
    """

    def __init__(self, ring: Ring, *, sending: bool) -> None:
        self._ring, self._sending = ring, sending
        self._position = 0  # in the ring's units, of what is queued
        self._messages = 0
        self._mover: int | None = None  # a device; None is the thread
        self._last: Operation | None = None
        self._gpus: dict[int, _Streams] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gdrkit-shared")
        self._gone = threading.Event()
        self._barrier = Barrier()

    def begin(self, what: Buffer, stream: int, crc32: int | None) -> Operation:
        """Queue a message. A sender waits here while the receiver has not taken the 64th message before
        it.
        """
        if self._gone.is_set():
            raise PeerLost("the connection is broken")
        if self._mover != what.device and (last := self._last) is not None:
            self._until(lambda: last.done())
        self._mover = what.device
        ring, number = self._ring, self._messages
        self._messages = (number + 1) % _WRAP
        if self._sending and not reached(ring.header.taken[0], number - DESCRIPTORS + 1):
            self._until(lambda: reached(ring.header.taken[0], number - DESCRIPTORS + 1))
        begin, self._position = self._position, self._position + units(what.size_bytes)
        idle = (ring.produced if self._sending else ring.consumed)[0] == begin % _WRAP
        step = ring.step(what.size_bytes, busy=not idle)
        if what.device is None:
            moved = self._thread.submit(self._move_on_host, number, what, begin, step)
            operation: Operation = Threaded(moved)
        else:
            gpu = self._on(what.device)
            gpu.move(what, begin, step, stream, sending=self._sending, idle=idle)
            operation = _OnGpu(self, number, what.size_bytes, self._position, gpu)
        if self._sending:  # after the copies have begun: the receiver asks for it when they are there
            self._announce(number, what.size_bytes, crc32)
        self._last = operation
        return operation

    def _announce(self, number: int, size_bytes: int, crc32: int | None) -> None:
        header = self._ring.header
        row = header.descriptors[number % DESCRIPTORS]
        row.size_bytes, row.crc32, row.checked = size_bytes, crc32 or 0, crc32 is not None
        self._barrier()
        header.announced[0] = (number + 1) % _WRAP

    def announced(self, number: int, size_bytes: int) -> tuple[bool, int | None]:
        """Whether the message of that number was announced, and its CRC-32. Raises where its size is
        another.
        """
        header = self._ring.header
        if not reached(header.announced[0], number + 1):
            return False, None
        row = header.descriptors[number % DESCRIPTORS]
        if row.size_bytes != size_bytes and not self._gone.is_set():
            raise TransportError(f"{row.size_bytes} bytes were sent where {size_bytes} were expected")
        return True, row.crc32 if row.checked else None

    def take(self, number: int) -> None:
        """Let the sender announce another message."""
        self._ring.header.taken[0] = (number + 1) % _WRAP

    def _until(self, condition: Callable[[], bool]) -> None:
        begun = time.monotonic()
        while not condition():
            if self._gone.is_set():
                raise PeerLost("the other process is gone")
            rest(time.monotonic() - begun)

    def _move_on_host(self, number: int, what: Buffer, begin: int, step: int) -> int | None:
        ring, crc = self._ring, None
        if not self._sending:
            self._until(lambda: self.announced(number, what.size_bytes)[0])
            crc = self.announced(number, what.size_bytes)[1]
        produced, consumed = ring.produced, ring.consumed
        for end, place, offset, size in ring.pieces(begin, what.size_bytes, step):
            if self._sending:
                self._until(lambda: reached(consumed[0], end - ring.units))  # noqa: B023
                ctypes.memmove(place, what.address + offset, size)
                self._barrier()
                produced[0] = end % _WRAP
            else:
                self._until(lambda: reached(produced[0], end))  # noqa: B023
                self._barrier()
                ctypes.memmove(what.address + offset, place, size)
                self._barrier()
                consumed[0] = end % _WRAP
        if self._gone.is_set():
            raise PeerLost("the other process is gone")
        if not self._sending:
            self.take(number)
        return crc

    def _on(self, device: int) -> _Streams:
        """The streams of a device that was prepared, with its context current."""
        from gdrkit.native.cuda import cuda

        cuda().use(device)
        return self._gpus[device]

    def prepare(self, device: int) -> None:
        """Pin the ring and make the streams, once for each device."""
        if device not in self._gpus:
            from gdrkit.native.cuda import cuda

            cuda().use(device)
            self._ring.pin()
            self._gpus[device] = _Streams(self._ring)

    @property
    def sending(self) -> bool:
        return self._sending

    @property
    def gone(self) -> bool:
        return self._gone.is_set()

    def reached(self, position: int) -> bool:
        """Whether our side is through with all chunks before that position."""
        return reached((self._ring.produced if self._sending else self._ring.consumed)[0], position)

    def abandon(self) -> None:
        self._gone.set()
        self._ring.poison(self._position)

    def close(self) -> None:
        """End our own thread and streams, then unmap. What they wait for is kept in reach until they
        have ended.
        """
        self._gone.set()
        self._thread.shutdown(wait=True)
        while self._gpus:
            from gdrkit.native.cuda import cuda

            device, gpu = self._gpus.popitem()
            cuda().use(device)
            deadline = time.monotonic() + _DRAIN_SECONDS
            while not gpu.idle() and time.monotonic() < deadline:
                self._ring.poison(self._position)
                time.sleep(0.001)
            gpu.close()
        self._last = None
        self._ring.close()


class _Streams:
    """One device's part in a direction. Copies go through the program's own stream, which keeps their order
    with no event between streams; a second one takes turns where a receiver has to wait, a third counts.
    """

    def __init__(self, ring: Ring) -> None:
        from gdrkit.native.cuda import EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING, cuda

        self._driver = driver = cuda()
        self._ring = ring
        self._second = driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
        self._counting = driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
        # A wait takes an event as it stands at that call (CUDA driver API, cuStreamWaitEvent): one will do.
        self._event = driver.number("cuEventCreate", EVENT_DISABLE_TIMING)
        self._ends: dict[int, int] = {}
        """The program's streams, each with the event after our last work there."""
        self._latest: int | None = None
        self._record, self._join = driver.function("cuEventRecord"), driver.function("cuStreamWaitEvent")
        self._wait = driver.function("cuStreamWaitValue32_v2")
        self._write = driver.function("cuStreamWriteValue32_v2")
        self._copy = driver.function("cuMemcpyAsync")
        self._produced = ring.on_device(ring.produced)
        self._consumed = ring.on_device(ring.consumed)

    def move(self, what: Buffer, begin: int, step: int, stream: int, *, sending: bool, idle: bool) -> None:
        """Queue a message: after what the program has queued on its stream, before what it will queue.

        It takes the ring's units from `begin`, in chunks of `step` bytes. `idle` tells that nothing of an
        earlier message is left to be counted.
        """
        short = idle and what.size_bytes <= _SHORT * step
        if not idle and self._latest is not None and self._latest != stream:
            self._call(self._join, stream, self._ends[self._latest], 0)  # messages keep their order
        self._latest = stream
        (self._send if sending else self._receive)(what, begin, step, stream, short)
        if stream not in self._ends:
            from gdrkit.native.cuda import EVENT_DISABLE_TIMING

            self._ends[stream] = self._driver.number("cuEventCreate", EVENT_DISABLE_TIMING)
        self._call(self._record, self._ends[stream], stream)

    def _send(self, what: Buffer, begin: int, step: int, stream: int, short: bool) -> None:
        """Copies into the ring, on one stream: side by side they would only share the link."""
        ring, allowed, last = self._ring, begin, begin + units(what.size_bytes)
        for end, place, offset, size in ring.pieces(begin, what.size_bytes, step):
            if end > allowed and not reached(ring.consumed[0], end - ring.units):
                # Each wait stops the copy engine for 2.5 us: one for half of the ring.
                allowed = min(last, max(end, end + ring.units // 2 - units(step)))
                self._call(self._wait, stream, self._consumed, (allowed - ring.units) % _WRAP, 0)
            self._call(self._copy, place, what.address + offset, size, stream)
            self._count(short, stream, self._produced, end)

    def _receive(self, what: Buffer, begin: int, step: int, stream: int, short: bool) -> None:
        """Copies out of the ring, on two streams in turn: one waits while the other copies."""
        ring, queue, other = self._ring, stream, stream if short else self._second
        if not short:
            self._follow(self._second, stream)
        for end, place, offset, size in ring.pieces(begin, what.size_bytes, step):
            if not reached(ring.produced[0], end):
                self._call(self._wait, queue, self._produced, end % _WRAP, 0)
            self._call(self._copy, what.address + offset, place, size, queue)
            if not short or offset + size == what.size_bytes:
                self._count(short, queue, self._consumed, end)
            queue, other = other, queue
        if not short:
            self._follow(stream, self._second)

    def _count(self, short: bool, queue: int, counter: int, end: int) -> None:
        """Tell that a chunk is through: short messages on the stream that copied it, no earlier count being
        outstanding."""
        if not short:
            self._follow(self._counting, queue)
            queue = self._counting
        self._call(self._write, queue, counter, end % _WRAP, 0)

    def _follow(self, stream: int, other: int) -> None:
        """Let what will be queued on a stream wait for what is queued on another."""
        self._call(self._record, self._event, other)
        self._call(self._join, stream, self._event, 0)

    def _call(self, function: Callable[..., int], *arguments: int) -> None:
        if result := function(*arguments):
            raise self._driver.error(function.__name__, result)

    def idle(self) -> bool:
        """Whether nothing queued here is left. Raises CudaError if any of it failed."""
        driver = self._driver
        return all(driver.stream_done(stream) for stream in (self._second, self._counting)) and all(
            driver.event_done(event) for event in self._ends.values()
        )

    def look(self) -> None:
        """Raise CudaError if anything queued here has failed."""
        self._driver.event_done(self._event)

    def close(self) -> None:
        """Wait for all that is queued, then free it."""
        for event in (*self._ends.values(), self._event):
            self._driver.call("cuEventSynchronize", event)
            self._driver.call("cuEventDestroy_v2", event)
        for stream in (self._second, self._counting):
            self._driver.call("cuStreamSynchronize", stream)
            self._driver.call("cuStreamDestroy_v2", stream)


class _OnGpu:
    """A message whose copies are queued. The counters tell when it is over, without a call into the
    driver.
    """

    spin_seconds = (
        0.02  # 1 GB at PCIe's speed; the copies need no processor that looking could take from them
    )

    def __init__(self, half: _Half, number: int, size_bytes: int, end: int, gpu: _Streams) -> None:
        self._half, self._number, self._size, self._end, self._gpu = half, number, size_bytes, end, gpu
        self._crc: int | None = None
        self._polls = 0
        self._finished = False

    def done(self) -> bool:
        if self._finished:
            return True
        if self._half.gone:
            raise PeerLost("the other process is gone")
        self._polls += 1
        if self._polls % _LOOK_EVERY == 0:
            self._gpu.look()
        if not self._half.sending:
            arrived, self._crc = self._half.announced(self._number, self._size)
            if not arrived:
                return False
        if not self._half.reached(self._end):
            return False
        self._finished = True
        if not self._half.sending:
            self._half.take(self._number)
        return True

    def expected_crc32(self) -> int | None:
        return self._crc
