"""The sender's engine: copies from a GPU into a ring."""

from __future__ import annotations

from collections import deque

from gdrkit.transport.engine import Engine, RingMessage
from gdrkit.transport.ring import Ring, reached, units


class RingProducer(Engine):
    """The sender's engine. Copies are queued on the program's own stream, which keeps their order."""

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__(ring, device)
        self._latest: int | None = None
        self._copying: deque[tuple[int, int]] = deque()  # an event after a copy, and the unit it reaches

    def _move(self, message: RingMessage, stream: int | None, idle: bool) -> None:
        queue = self._own if stream is None else stream
        if not idle and self._latest is not None and self._latest != queue:  # messages keep their order
            if self._latest == self._own:
                self.follow(queue, self._own)
            else:
                self.gpu.follow_mark(queue, self._latest)
        self._latest = queue
        if stream is None:
            self._expect(message)
        else:
            self._fill(message, message.begin, stream, waits=True)
            self.gpu.mark(stream)

    def _queue(self, message: RingMessage, position: int) -> None:
        self._fill(message, position, self._own, waits=True)

    def _has_space(self, reaches: int) -> bool:
        return reached(self.ring.consumed[0], reaches - self.ring.units)

    def _can_advance(self) -> bool:
        return self._has_space(self._position + 1)

    def _advance(self) -> bool:
        before = self._position, len(self.messages)
        while self.messages:
            message = self.messages[0]
            self._position = self._fill(message, self._position, self._own, waits=False)
            if self._position != message.end:
                break
            self._next()
        return before != (self._position, len(self.messages))

    def _fill(self, message: RingMessage, position: int, queue: int, *, waits: bool) -> int:
        """Queue the copies that the ring has space for, or with `waits` the rest of the message. Returns the
        unit that they reach.
        """
        ring, allowed = self.ring, position
        address, left = message.remaining(position)
        for reaches, target, offset, size in ring.pieces(position, left, message.step):
            if reaches > allowed and not self._has_space(reaches):
                if not waits:
                    break
                # Each wait stops the copy engine for 2.5 us, so wait once per half of the ring.
                most = reaches + ring.units // 2 - units(message.step)
                allowed = min(message.end, max(reaches, most))
                self.wait(queue, self._consumed, allowed - ring.units)
            self.copy(target, address + offset, size, queue)
            if not (waits or message.short):
                self._copying.append((self.gpu.record(queue), reaches))
            self.count(message, queue, self._produced, reaches)
            position = reaches
        return position

    def poll(self) -> None:
        if self._copying:
            with self._lock:
                while self._copying and self.gpu.passed(self._copying[0][0]):
                    self.ring.acknowledge(self._copying.popleft()[1])
