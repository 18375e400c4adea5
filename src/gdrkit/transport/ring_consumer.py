"""A receiver's engine: out of a ring, into a GPU."""

from __future__ import annotations

import os
from collections import deque

from gdrkit.transport.engine import Engine, RingMessage
from gdrkit.transport.ring import UNIT_BYTES, WRAP, Ring, reached, units

_AHEAD = 2  # copies that a waiting thread queues: the one that runs, and the one after it
_QUEUES = 8
"""Hardware queues that streams share, where CUDA_DEVICE_MAX_CONNECTIONS does not say another number (CUDA C
Programming Guide, "CUDA environment variables").
"""


class RingConsumer(Engine):
    """A receiver's.

    A stream that waits for data looks only every 8 us (measured on H200s): a large message with no place in
    a stream is there sooner. A short one, which even so is there sooner than a thread could bring it, is
    queued at once in any case, unless a program has fewer hardware queues than usual.
    """

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__(ring, device)
        self._second = self.stream()
        self._flying: deque[int] = deque()  # where the copies end that were queued and are not over
        asked = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "")
        self._may_wait = not asked.isdigit() or int(asked) >= _QUEUES

    def _move(self, message: RingMessage, stream: int | None, idle: bool) -> None:
        if stream is None and not (message.short and self._may_wait):
            self._expect(message._replace(short=False))
            return
        queue = self._own if stream is None else stream
        if message.short:
            self._queue_on(message, message.begin, (queue, queue))
        else:
            self.follow(self._second, queue)
            self._queue_on(message, message.begin, (queue, self._second))
            self.follow(queue, self._second)
        self._ends.mark(queue)

    def _queue(self, message: RingMessage, position: int) -> None:
        self._queue_on(message._replace(alone=False, short=False), position, (self._own, self._second))

    def _queue_on(self, message: RingMessage, position: int, streams: tuple[int, int]) -> None:
        """Queue the rest of a message on two streams in turn: one waits while the other copies."""
        queue, other = streams
        address, left = message.rest(position)
        for reaches, place, offset, size in self.ring.pieces(position, left, message.step):
            if not reached(self.ring.produced[0], reaches):
                self.wait(queue, self._produced, reaches)
            self.copy(address + offset, place, size, queue)
            if not message.short or reaches == message.end:
                self.count(message, queue, self._consumed, reaches)
            queue, other = other, queue

    def count(self, message: RingMessage, stream: int, counter: int, reaches: int) -> None:
        super().count(message, stream, counter, reaches)
        if message.alone and reaches == message.end:  # the next may come on any stream: its counts follow
            self.follow(self._counting, stream)

    def _there(self) -> int:
        """Units of the ring that can be copied now: what the sender has filled and is not queued, and none
        while two copies are under way. What comes meanwhile goes in one copy.
        """
        while self._flying and reached(self.ring.consumed[0], self._flying[0]):
            self._flying.popleft()
        ahead: int = (self.ring.filled - self._position) % WRAP
        return ahead if len(self._flying) < _AHEAD and ahead < WRAP // 2 else 0

    def _can_advance(self) -> bool:
        return self._there() > 0 or self._position == self.messages[0].end

    def _advance(self) -> None:
        while self.messages:
            there = self._there()
            if there:
                self._take(self.messages[0], there)
            if self._position == self.messages[0].end:
                self._next()
            elif not there:
                return

    def _take(self, message: RingMessage, there: int) -> None:
        """Queue one copy of units that are there, as large as can be."""
        address, left = message.rest(self._position)
        place, most = self.ring.place(self._position)
        size = min(left, there * UNIT_BYTES, self.ring.largest_step, most)
        if size:
            self.copy(address, place, size, self._own)
            self._position += units(size)
            self.count(message, self._own, self._consumed, self._position)
            self._flying.append(self._position)
