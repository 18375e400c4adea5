"""One direction of a ring, moved by a GPU's copy engines: no byte goes through the CPU.

Counting in the stream that copies would stop its copy engine for 4 us each time (measured on H200s), so
that is done by another stream, except for short messages.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from gdrkit.native.cuda import EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING, CudaError, cuda
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.ends import Ends
from gdrkit.transport.ring import UNIT_BYTES, WRAP, Ring, reached, units

_SHORT = 2  # chunks: up to that, fewer calls save more than the pauses cost
_AHEAD = 2  # copies that a waiting thread queues: the one that runs, and the one after it
_UNATTENDED_SECONDS = 300e-6  # two chunks of 7 MB at 50 GB/s: so long the engine has something to do


class Engine:
    """What both directions have in common: a stream that counts, and an end for each stream of the
    program's.
    """

    def __init__(self, ring: Ring, device: int) -> None:
        self.driver, self.ring, self.device = cuda(), ring, device
        self._streams: list[int] = []
        self._counting = self.stream()
        # A wait takes an event as it stands at that call (CUDA driver API, cuStreamWaitEvent): one will do.
        self._event = self.driver.number("cuEventCreate", EVENT_DISABLE_TIMING)
        self._ends = Ends()
        self._record = self.driver.function("cuEventRecord")
        self._join = self.driver.function("cuStreamWaitEvent")
        self._wait = self.driver.function("cuStreamWaitValue32_v2")
        self._write = self.driver.function("cuStreamWriteValue32_v2")
        self._copy = self.driver.function("cuMemcpyAsync")
        self._produced = ring.on_device(ring.produced)
        self._consumed = ring.on_device(ring.consumed)

    def stream(self) -> int:
        """A stream of our own."""
        made = self.driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
        self._streams.append(made)
        return made

    def call(self, function: Callable[..., int], *arguments: int) -> None:
        if result := function(*arguments):
            raise self.driver.error(function.__name__, result)

    def wait(self, stream: int, counter: int, value: int) -> None:
        """Let a stream wait until a counter has reached a value."""
        self.call(self._wait, stream, counter, value % WRAP, 0)

    def copy(self, to: int, of: int, size_bytes: int, stream: int) -> None:
        self.call(self._copy, to, of, size_bytes, stream)

    def follow(self, stream: int, other: int) -> None:
        """Let what will be queued on a stream wait for what is queued on another."""
        self.call(self._record, self._event, other)
        self.call(self._join, stream, self._event, 0)

    def count(self, stream: int, counter: int, value: int, *, there: bool = False) -> None:
        """Set a counter when a stream has come so far: on that stream itself, if `there`, where no earlier
        count is outstanding.
        """
        if not there:
            self.follow(self._counting, stream)
        self.call(self._write, stream if there else self._counting, counter, value % WRAP, 0)

    def move(self, what: Buffer, begin: int, step: int, stream: int | None, *, idle: bool) -> None:
        """Queue a message: after what the program has queued on its stream, before what it will queue;
        None is no stream of the program's.

        It takes the ring's units from `begin`, in chunks of `step` bytes. `idle` tells that nothing of an
        earlier message is left to be counted.
        """
        raise NotImplementedError

    def attend(self) -> None:
        """To be called again and again by whoever waits for a message."""

    def abandon(self) -> None:
        """Queue nothing more."""

    def idle(self) -> bool:
        """Whether nothing queued here is left. Raises CudaError if any of it failed."""
        ours = all(self.driver.stream_done(stream) for stream in self._streams)
        return ours and self._ends.all_passed()

    def look(self) -> None:
        """Raise CudaError if anything queued here has failed."""
        with self.driver.on(self.device):
            self.driver.event_done(self._event)

    def close(self) -> None:
        """Wait for all that is queued, then free it. To be called after `abandon`."""
        self._ends.close()
        for stream in self._streams:
            self.driver.call("cuStreamSynchronize", stream)
            self.driver.call("cuStreamDestroy_v2", stream)
        self.driver.call("cuEventDestroy_v2", self._event)


class Filling(Engine):
    """A sender's. Copies go through the program's own stream, which keeps their order by itself."""

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__(ring, device)
        self._own = self.stream()
        self._latest: int | None = None

    def move(self, what: Buffer, begin: int, step: int, stream: int | None, *, idle: bool) -> None:
        ring, allowed, last = self.ring, begin, begin + units(what.size_bytes)
        queue = self._own if stream is None else stream
        short = idle and what.size_bytes <= _SHORT * step
        if not idle and self._latest is not None and self._latest != queue:
            self._ends.follow(queue, self._latest)  # messages keep their order
        for reaches, place, offset, size in ring.pieces(begin, what.size_bytes, step):
            if reaches > allowed and not reached(ring.consumed[0], reaches - ring.units):
                # Each wait stops the copy engine for 2.5 us: one for half of the ring.
                allowed = min(last, max(reaches, reaches + ring.units // 2 - units(step)))
                self.wait(queue, self._consumed, allowed - ring.units)
            self.copy(place, what.address + offset, size, queue)
            self.count(queue, self._produced, reaches, there=short)
        self._latest = queue
        self._ends.mark(queue)


class _Arrival(NamedTuple):
    """A message of which copies are yet to be queued: what comes between `begin` and `end` in the ring."""

    what: Buffer
    begin: int
    end: int
    step: int


class Emptying(Engine):
    """A receiver's.

    A stream that waits for data delays each copy by 2 us (measured on H200s). It has to wait where the
    program wants the message in its stream's order. Where it does not, who waits for the message queues
    each copy when its data is there; if nobody does, the GPU is left to wait in this case, too.

    Nothing is ever queued that waits for what is queued here later: streams may share a hardware queue
    (CUDA_DEVICE_MAX_CONNECTIONS), where one that waits holds up what stands behind it. A version that let
    the program's stream wait for copies yet to come did come to a halt on H200s.
    """

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__(ring, device)
        self._own, self._second = self.stream(), self.stream()
        self._arrivals: deque[_Arrival] = deque()
        self._position = 0  # in the first arrival: as far as copies are queued
        self._flying: deque[int] = deque()  # where the copies end that were queued and are not over
        self._attended = 0.0  # when somebody last looked for data
        self._lock = threading.Lock()
        self._closed, self._pending = False, threading.Event()
        self._keeper: threading.Thread | None = None
        self._failed: CudaError | None = None

    def move(self, what: Buffer, begin: int, step: int, stream: int | None, *, idle: bool) -> None:
        short = idle and what.size_bytes <= _SHORT * step
        with self._lock:
            if stream is None and not short:
                self._expect(_Arrival(what, begin, begin + units(what.size_bytes), step))
                return
            self._queue_all()
            queue = self._own if stream is None else stream
            if short:
                self._queue(what, begin, step, (queue, queue), short=True)
                self.follow(self._counting, queue)  # counts to come, on whatever stream, come after this one
            else:
                self.follow(self._second, queue)
                self._queue(what, begin, step, (queue, self._second), short=False)
                self.follow(queue, self._second)
            self._ends.mark(queue)

    def _queue(self, what: Buffer, begin: int, step: int, streams: tuple[int, int], *, short: bool) -> None:
        """Queue a message with waits for its data, on two streams in turn: one waits while the other
        copies.
        """
        queue, other = streams
        for reaches, place, offset, size in self.ring.pieces(begin, what.size_bytes, step):
            if not reached(self.ring.produced[0], reaches):
                self.wait(queue, self._produced, reaches)
            self.copy(what.address + offset, place, size, queue)
            if not short or offset + size == what.size_bytes:
                self.count(queue, self._consumed, reaches, there=short)
            queue, other = other, queue

    def _expect(self, arrival: _Arrival) -> None:
        if not self._arrivals:
            self._position = arrival.begin
        self._arrivals.append(arrival)
        self._attended = time.monotonic()
        self._pending.set()
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="gdrkit-arrivals", daemon=True)
            self._keeper.start()

    def attend(self) -> None:
        """Queue the copies of what has come, two at most: what comes meanwhile goes in one copy."""
        with self._lock:
            self._attended = time.monotonic()
            while self._flying and reached(self.ring.consumed[0], self._flying[0]):
                self._flying.popleft()
            while self._arrivals and len(self._flying) < _AHEAD:
                arrival = self._arrivals[0]
                there = (self.ring.produced[0] - self._position) % WRAP
                if arrival.end > self._position and not 0 < there < WRAP // 2:
                    return
                with self.driver.on(self.device):
                    self._flying.append(self._take(arrival, there))

    def _take(self, arrival: _Arrival, there: int) -> int:
        """Queue one copy of units that are there, as large as can be; where it ends."""
        rest, ring = _rest(arrival, self._position), self.ring
        size = min(rest.size_bytes, there * UNIT_BYTES, ring.largest_step)
        for reaches, place, _, piece in ring.pieces(self._position, size, ring.largest_step):
            self.copy(rest.address, place, piece, self._own)
            self.count(self._own, self._consumed, reaches)
            self._position = reaches
            break  # the ring's end may come before the size's
        if self._position == arrival.end:
            self._next()
        return self._position

    def _queue_all(self) -> None:
        """Queue all that is left of what is expected, with waits for its data."""
        while self._arrivals:
            arrival = self._arrivals[0]
            rest = _rest(arrival, self._position)
            self._queue(rest, self._position, arrival.step, (self._own, self._second), short=False)
            self._next()

    def _next(self) -> None:
        self._arrivals.popleft()
        if self._arrivals:
            self._position = self._arrivals[0].begin

    def _keep(self) -> None:
        """See to it that messages arrive for which nobody waits."""
        self.driver.use(self.device)
        while self._pending.wait() and not self._closed:
            time.sleep(_UNATTENDED_SECONDS)
            with self._lock:
                if not self._arrivals:
                    self._pending.clear()
                elif time.monotonic() - self._attended > _UNATTENDED_SECONDS:
                    try:
                        self._queue_all()
                    except CudaError as error:
                        self._failed = error
                        return

    def look(self) -> None:
        if self._failed:
            raise self._failed
        super().look()

    def abandon(self) -> None:
        with self._lock:
            self._closed = True
            self._arrivals.clear()
            self._pending.set()
        if self._keeper:
            self._keeper.join()


def _rest(arrival: _Arrival, position: int) -> Buffer:
    """What of a message comes from that unit of the ring on."""
    offset = (position - arrival.begin) * UNIT_BYTES
    return arrival.what.part(offset, arrival.what.size_bytes - offset)
