"""One direction of a ring, moved by a GPU's copy engines: no byte goes through the CPU.

Counting in the stream that copies would stop its copy engine for 4 us each time (measured on H200s), so
that is done by another stream, except for short messages.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from gdrkit.native.cuda import EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING, CudaError, cuda
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.ends import Ends
from gdrkit.transport.operation import pause
from gdrkit.transport.ring import UNIT_BYTES, WRAP, Ring, reached, units

_SHORT = 2  # chunks: up to that, fewer calls save more than the pauses cost
_AHEAD = 2  # copies that a waiting thread queues: the one that runs, and the one after it
_UNATTENDED_SECONDS = 300e-6  # two chunks of 7 MB at 50 GB/s: so long the engine has something to do
_QUEUES = 8
"""Hardware queues that streams share, where CUDA_DEVICE_MAX_CONNECTIONS does not say another number (CUDA C
Programming Guide, "CUDA environment variables").
"""


class _Message(NamedTuple):
    """A message that takes the ring's units from `begin` to `end`, in chunks of `step` bytes. What is short
    is counted by the stream that copies.
    """

    what: Buffer
    begin: int
    end: int
    step: int
    short: bool

    def rest(self, position: int) -> tuple[int, int]:
        """Address and bytes of what of it comes from that unit of the ring on."""
        offset = (position - self.begin) * UNIT_BYTES
        return self.what.address + offset, self.what.size_bytes - offset


class Engine(ABC):
    """What both directions have in common.

    A message in its place in a program's stream is queued at once, all of it, with waits for the other
    side. One that has no place in any stream is queued piece by piece, each when nothing is left to wait
    for: by whoever waits for the message, or else by a thread. A copy that waits in its stream holds up
    all copies that share its hardware queue, on whatever stream they are (seen on H200s); so no stream is
    made to wait that need not.

    Nothing is ever queued that waits for what is queued here later, for the same reason. A version that let
    the program's stream wait for copies yet to come did come to a halt on H200s.
    """

    def __init__(self, ring: Ring, device: int) -> None:
        self.driver, self.ring, self.device = cuda(), ring, device
        self._streams: list[int] = []
        self._own, self._counting = self.stream(), self.stream()
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
        self._messages: deque[_Message] = deque()  # that have no place in a stream, and are not all queued
        self._position = 0  # in the first of them: as far as copies are queued
        self._changed = threading.Condition(threading.Lock())  # there is a message, or it is over
        self._attended = 0.0  # when somebody last looked whether more can be queued
        self._closed = False
        self._keeper: threading.Thread | None = None
        self._failed: CudaError | None = None

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
        short = idle and what.size_bytes <= _SHORT * step
        message = _Message(what, begin, begin + units(what.size_bytes), step, short)
        with self._changed:
            if stream is not None:
                self._queue_all()
            self._move(message, stream, idle)

    @abstractmethod
    def _move(self, message: _Message, stream: int | None, idle: bool) -> None:
        """Queue a message; on a stream, nothing without a place in one is left before it."""

    @abstractmethod
    def _queue(self, message: _Message, position: int) -> None:
        """Queue what is left of a message with no place in a stream, with waits for the other side."""

    @abstractmethod
    def _can_advance(self) -> bool:
        """Whether the other side is far enough for more to be queued. There is a message."""

    @abstractmethod
    def _advance(self) -> None:
        """Queue what can be queued without a wait for the other side: there is some. The context is
        current.
        """

    def _expect(self, message: _Message) -> None:
        """Queue a message piece by piece: now what can be, the rest when somebody attends to it."""
        if not self._messages:
            self._position = message.begin
        self._messages.append(message)
        if self._can_advance():
            self._advance()
        if self._messages:
            self._attended = time.monotonic()
            self._changed.notify()
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, name="gdrkit-keeper", daemon=True)
                self._keeper.start()

    def _next(self) -> None:
        self._messages.popleft()
        if self._messages:
            self._position = self._messages[0].begin

    def _queue_all(self) -> None:
        while self._messages:
            self._queue(self._messages[0], self._position)
            self._next()

    def attend(self) -> None:
        """Queue what can be by now. To be called again and again by whoever waits for a message."""
        if self._messages:
            with self._changed:
                self._attended = time.monotonic()
                if self._messages and self._can_advance():
                    with self.driver.on(self.device):
                        self._advance()

    def _keep(self) -> None:
        """Attend to messages for which nobody waits."""
        self.driver.use(self.device)
        with self._changed:
            begun = time.monotonic()
            while not self._closed:
                if not self._messages:
                    self._changed.wait()
                    begun = time.monotonic()
                    continue
                self._changed.wait(max(_UNATTENDED_SECONDS, pause(time.monotonic() - begun)))
                unattended = time.monotonic() - self._attended > _UNATTENDED_SECONDS
                if unattended and self._messages and self._can_advance():
                    try:
                        self._advance()
                    except CudaError as error:
                        self._failed = error
                        return
                    begun = time.monotonic()

    def abandon(self) -> None:
        """Queue nothing more."""
        with self._changed:
            self._closed = True
            self._messages.clear()
            self._changed.notify()
        if self._keeper:
            self._keeper.join()

    def idle(self) -> bool:
        """Whether nothing queued here is left. Raises CudaError if any of it failed."""
        ours = all(self.driver.stream_done(stream) for stream in self._streams)
        return ours and self._ends.all_passed()

    def look(self) -> None:
        """Raise CudaError if anything queued here has failed."""
        if self._failed:
            raise self._failed
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
        self._latest: int | None = None

    def _move(self, message: _Message, stream: int | None, idle: bool) -> None:
        queue = self._own if stream is None else stream
        if not idle and self._latest is not None and self._latest != queue:  # messages keep their order
            if self._latest == self._own:
                self.follow(queue, self._own)
            else:
                self._ends.follow(queue, self._latest)
        self._latest = queue
        if stream is None:
            self._expect(message)
        else:
            self._queue_on(message, message.begin, stream)
            self._ends.mark(stream)

    def _queue(self, message: _Message, position: int) -> None:
        self._queue_on(message, position, self._own)

    def _queue_on(self, message: _Message, position: int, queue: int) -> None:
        ring, allowed = self.ring, position
        address, left = message.rest(position)
        for reaches, place, offset, size in ring.pieces(position, left, message.step):
            if reaches > allowed and not self._has_room(reaches):
                # Each wait stops the copy engine for 2.5 us: one for half of the ring.
                most = reaches + ring.units // 2 - units(message.step)
                allowed = min(message.end, max(reaches, most))
                self.wait(queue, self._consumed, allowed - ring.units)
            self.copy(place, address + offset, size, queue)
            self.count(queue, self._produced, reaches, there=message.short)

    def _has_room(self, reaches: int) -> bool:
        return reached(self.ring.consumed[0], reaches - self.ring.units)

    def _can_advance(self) -> bool:
        return self._has_room(self._position + 1)

    def _advance(self) -> None:
        while self._messages:
            message = self._messages[0]
            address, left = message.rest(self._position)
            for reaches, place, offset, size in self.ring.pieces(self._position, left, message.step):
                if not self._has_room(reaches):
                    return
                self.copy(place, address + offset, size, self._own)
                self.count(self._own, self._produced, reaches, there=message.short)
                self._position = reaches
            self._next()


class Emptying(Engine):
    """A receiver's.

    A stream that waits for data delays each copy by 2 us (measured on H200s): a message with no place in a
    stream is there sooner. Only a short one, which such a wait brings sooner than a thread could, is
    queued at once in any case, unless a program has fewer hardware queues than usual.
    """

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__(ring, device)
        self._second = self.stream()
        self._flying: deque[int] = deque()  # where the copies end that were queued and are not over
        asked = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "")
        self._may_wait = not asked.isdigit() or int(asked) >= _QUEUES

    def _move(self, message: _Message, stream: int | None, idle: bool) -> None:
        if stream is None and not (message.short and self._may_wait):
            self._expect(message)
            return
        queue = self._own if stream is None else stream
        if message.short:
            self._queue_on(message, message.begin, (queue, queue))
            self.follow(self._counting, queue)  # counts to come, on whatever stream, come after this one
        else:
            self.follow(self._second, queue)
            self._queue_on(message, message.begin, (queue, self._second))
            self.follow(queue, self._second)
        self._ends.mark(queue)

    def _queue(self, message: _Message, position: int) -> None:
        self._queue_on(message._replace(short=False), position, (self._own, self._second))

    def _queue_on(self, message: _Message, position: int, streams: tuple[int, int]) -> None:
        """Queue the rest of a message on two streams in turn: one waits while the other copies."""
        queue, other = streams
        address, left = message.rest(position)
        for reaches, place, offset, size in self.ring.pieces(position, left, message.step):
            if not reached(self.ring.produced[0], reaches):
                self.wait(queue, self._produced, reaches)
            self.copy(address + offset, place, size, queue)
            if not message.short or reaches == message.end:
                self.count(queue, self._consumed, reaches, there=message.short)
            queue, other = other, queue

    @property
    def _there(self) -> int:
        """Units of the ring that the sender has filled, and that are not queued."""
        ahead: int = (self.ring.produced[0] - self._position) % WRAP
        return ahead if ahead < WRAP // 2 else 0

    def _can_advance(self) -> bool:
        """Two copies at most are under way: what comes meanwhile goes in one copy."""
        while self._flying and reached(self.ring.consumed[0], self._flying[0]):
            self._flying.popleft()
        empty = self._messages[0].end == self._position
        return len(self._flying) < _AHEAD and (self._there > 0 or empty)

    def _advance(self) -> None:
        self._take()
        while self._messages and self._can_advance():
            self._take()

    def _take(self) -> None:
        """Queue one copy of units that are there, as large as can be."""
        message, position, ring = self._messages[0], self._position, self.ring
        address, left = message.rest(position)
        size = min(left, self._there * UNIT_BYTES, ring.largest_step, ring.left(position))
        if size:
            position += units(size)
            self.copy(address, ring.address_of(self._position), size, self._own)
            self.count(self._own, self._consumed, position)
            self._flying.append(position)
            self._position = position
        if position == message.end:
            self._next()
