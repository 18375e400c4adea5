"""One direction of a ring, served by a GPU's copy engines: the CPU copies no bytes.

If the copying stream updated the counter, its copy engine would stop for 2 us more each time. So another
stream updates the counter. But a waiting stream checks its condition only every 8 us (both measured on
H200s). So two cases are counted by the copying stream: a short message, and the end of a message that was
alone when it started. In addition, a sender that waits observes on the CPU which copies are complete, and
acknowledges them to the receiver.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.gpu import Gpu
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.progress import Progress
from gdrkit.transport.ring import UNIT_BYTES, WRAP, Ring, units

_SHORT = 2  # chunks: up to this many, fewer calls save more time than the pauses cost


class RingMessage:
    """A message that occupies the ring's units from `begin` to `end`, in chunks of `step` bytes; `position`
    is the unit up to which its copies are queued. `alone`: no earlier message was left to count when it
    started. `short`: it was alone and has few chunks.
    """

    def __init__(self, what: Buffer, begin: int, step: int, *, alone: bool) -> None:
        self.what, self.step, self.alone = what, step, alone
        self.begin = self.position = begin
        self.end = begin + units(what.size_bytes)
        self.short = alone and what.size_bytes <= _SHORT * step

    def remaining(self) -> tuple[int, int]:
        """Address and size in bytes of the part whose copies are not queued."""
        offset = (self.position - self.begin) * UNIT_BYTES
        return self.what.address + offset, self.what.size_bytes - offset


class Engine(Progress):
    """The common part of both directions.

    A message in a program's stream order is queued completely at once, with waits for the other side. A
    message without stream order is queued piece by piece, each piece once it has nothing left to wait for.
    The thread that waits for the message queues the pieces; if no thread waits, a background thread does. A
    copy that waits in its stream blocks all copies in its hardware queue, also those of other streams (seen
    on H200s). So a stream waits only where it must.

    For the same reason, queued work never waits for work that is queued here later. A version in which the
    program's stream waited for copies that were not yet queued did deadlock on H200s.
    """

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__()
        self.driver, self.ring, self.device = cuda(), ring, device
        self.gpu = Gpu(device)
        self._own, self._counting = self.gpu.stream, self.gpu.new_stream()
        # A wait uses the event's state at the time of the call (CUDA driver API, cuStreamWaitEvent), so one
        # event is enough.
        self._event = self.gpu.new_event()
        self._record = self.driver.function("cuEventRecord")
        self._wait_event = self.driver.function("cuStreamWaitEvent")
        self._wait = self.driver.function("cuStreamWaitValue32_v2")
        self._write = self.driver.function("cuStreamWriteValue32_v2")
        self._copy = self.driver.function("cuMemcpyAsync")
        self._produced = ring.on_device(ring.produced)
        self._consumed = ring.on_device(ring.consumed)
        self.messages: deque[RingMessage] = deque()  # without stream order, and not completely queued

    def call(self, function: Callable[..., int], *arguments: int) -> None:
        if result := function(*arguments):
            raise self.driver.error(function.__name__, result)

    def wait(self, stream: int, counter: int, value: int) -> None:
        """Make a stream wait until a counter has reached a value."""
        self.call(self._wait, stream, counter, value % WRAP, 0)

    def copy(self, destination: int, source: int, size_bytes: int, stream: int) -> None:
        self.call(self._copy, destination, source, size_bytes, stream)

    def follow(self, stream: int, other: int) -> None:
        """Make work queued later on a stream wait for work queued so far on another."""
        self.call(self._record, self._event, other)
        self.call(self._wait_event, stream, self._event, 0)

    def count(self, message: RingMessage, stream: int, counter: int, reaches: int) -> None:
        """Set a counter to the unit that a message reaches, once the stream's work so far is complete.
        Counts are written in order: an earlier count that is written later would move the counter back.
        """
        in_stream = message.short or (message.alone and reaches == message.end)
        if not in_stream:
            self.follow(self._counting, stream)
        elif not message.short:
            self.follow(stream, self._counting)
        self.call(self._write, stream if in_stream else self._counting, counter, reaches % WRAP, 0)

    def move(self, what: Buffer, begin: int, step: int, stream: int | None, *, idle: bool) -> None:
        """Queue a message after the work that the program has queued on its stream, and before the work that
        it will queue; None means without stream order.

        The message occupies the ring's units from `begin`, in chunks of `step` bytes. `idle`: every earlier
        message is completely counted.
        """
        with self._lock:
            while stream is not None and self.messages:
                self._queue(self.messages.popleft())
            self._move(RingMessage(what, begin, step, alone=idle), stream)

    @abstractmethod
    def _move(self, message: RingMessage, stream: int | None) -> None:
        """Queue a message. If it has a stream, all earlier messages without one are completely queued."""

    @abstractmethod
    def _queue(self, message: RingMessage) -> None:
        """Queue the rest of a message without stream order, with waits for the other side."""

    @property
    def pending(self) -> bool:
        return bool(self.messages)

    def _context(self) -> AbstractContextManager[object]:
        return self.driver.on(self.device)

    def _expect(self, message: RingMessage) -> None:
        """Queue a message piece by piece: what is possible now, the rest in calls of `progress`."""
        self.messages.append(message)
        self._advance()
        self._drive()

    def poll(self) -> None:
        """Called by a `progressing` thread between two reads of the counters."""
        return

    def _forget(self) -> None:
        self.messages.clear()

    def raise_failure(self) -> None:
        """Raise CudaError if any work queued here has failed."""
        if self._failed:
            raise self._failed
        with self.driver.on(self.device):
            self.driver.event_done(self._event)

    def close(self, release: Callable[[], object] = lambda: None, patience: float = 0.0) -> None:
        """Wait for all queued work, as `Gpu.close` does, then free the streams."""
        self.abandon()
        self.gpu.close(release, patience)
