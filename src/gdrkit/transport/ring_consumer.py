"""The receiver's engine: copies from a ring into a GPU."""

from __future__ import annotations

from collections import deque

from gdrkit.transport.engine import Engine, RingMessage
from gdrkit.transport.gpu import few_queues
from gdrkit.transport.ring import UNIT_BYTES, WRAP, Ring, reached, units

_AHEAD = 2  # copies that a waiting thread queues: the running one, and the next one


class RingConsumer(Engine):
    """The receiver's engine.

    A stream that waits for data checks only every 8 us (measured on H200s), so a large message without
    stream order arrives sooner when a thread queues its copies. A short message arrives sooner when a
    stream waits for it, in spite of the 8 us. So it is always queued at once, unless the program has fewer
    hardware queues than the default.
    """

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__(ring, device)
        self._second = self.gpu.new_stream()
        self._in_flight: deque[int] = deque()  # the end positions of queued, unfinished copies
        self._may_wait = not few_queues()

    def _move(self, message: RingMessage, stream: int | None) -> None:
        if stream is None and not (message.short and self._may_wait):
            message.short = False
            self._expect(message)
            return
        queue = self._own if stream is None else stream
        if message.short:
            self._queue_on(message, queue, queue)
        else:
            self.follow(self._second, queue)
            self._queue_on(message, queue, self._second)
            self.follow(queue, self._second)
        self.gpu.mark(queue)

    def _queue(self, message: RingMessage) -> None:
        message.alone = False
        self._queue_on(message, self._own, self._second)

    def _queue_on(self, message: RingMessage, queue: int, other: int) -> None:
        """Queue the rest of a message on two streams alternately: one waits while the other copies."""
        address, left = message.remaining()
        for reaches, source, offset, size in self.ring.pieces(message.position, left, message.step):
            if not reached(self.ring.produced[0], reaches):
                self.wait(queue, self._produced, reaches)
            self.copy(address + offset, source, size, queue)
            if not message.short or reaches == message.end:
                self.count(message, queue, self._consumed, reaches)
            queue, other = other, queue

    def count(self, message: RingMessage, stream: int, counter: int, reaches: int) -> None:
        super().count(message, stream, counter, reaches)
        if message.alone and reaches == message.end:
            # The next message may use any stream: its counts must come after this one.
            self.follow(self._counting, stream)

    def _available(self) -> int:
        """Units of the ring that can be copied now: those that are filled and not queued; 0 while two
        copies are in flight, so that the units that arrive meanwhile go into one copy.
        """
        while self._in_flight and reached(self.ring.consumed[0], self._in_flight[0]):
            self._in_flight.popleft()
        ahead: int = (self.ring.filled - self.messages[0].position) % WRAP
        return ahead if len(self._in_flight) < _AHEAD and ahead < WRAP // 2 else 0

    def _can_advance(self) -> bool:
        return self._available() > 0 or self.messages[0].position == self.messages[0].end

    def _advance(self) -> bool:
        advanced = False
        while self.messages:
            message = self.messages[0]
            if available := self._available():
                advanced |= self._queue_copy(message, available)
            if message.position == message.end:
                self.messages.popleft()
                advanced = True
            elif not available:
                break
        return advanced

    def _queue_copy(self, message: RingMessage, available: int) -> bool:
        """Queue one copy of available units, as large as possible. Whether any is left to copy."""
        address, left = message.remaining()
        source, most = self.ring.locate(message.position)
        if size := min(left, available * UNIT_BYTES, self.ring.largest_step, most):
            self.copy(address, source, size, self._own)
            message.position += units(size)
            self.count(message, self._own, self._consumed, message.position)
            self._in_flight.append(message.position)
        return bool(size)
