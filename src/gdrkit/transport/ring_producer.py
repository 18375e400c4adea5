"""The sender's engine: copies from a GPU into a ring."""

from __future__ import annotations

from collections import deque

from gdrkit.transport.engine import Engine, RingMessage
from gdrkit.transport.ring import Ring, reached, units

_MOST_COPYING = 16  # copies that a waiting sender tracks; a ring holds ten chunks of a large message


class RingProducer(Engine):
    """The sender's engine. Copies are queued on the program's own stream, which keeps their order."""

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__(ring, device)
        self._latest: int | None = None
        self._copying: deque[tuple[int, int]] = deque()  # an event after a copy, and the unit it reaches

    def _move(self, message: RingMessage, stream: int | None) -> None:
        queue = self._own if stream is None else stream
        if not message.alone and self._latest not in (None, queue):  # messages keep their order
            if self._latest == self._own:
                self.follow(queue, self._own)
            else:
                self.gpu.follow_mark(queue, self._latest)
        self._latest = queue
        if stream is None:
            self._expect(message)
        else:
            self._fill(message, stream, waits=True)
            self.gpu.mark(stream)

    def _queue(self, message: RingMessage) -> None:
        self._fill(message, self._own, waits=True)

    def _has_space(self, reaches: int) -> bool:
        return reached(self.ring.consumed[0], reaches - self.ring.units)

    def _can_advance(self) -> bool:
        return self._has_space(self.messages[0].position + 1)

    def _advance(self) -> bool:
        before = len(self.messages), self.messages[0].position if self.messages else 0
        while self.messages:
            self._fill(self.messages[0], self._own, waits=False)
            if self.messages[0].position != self.messages[0].end:
                break
            self.messages.popleft()
        return before != (len(self.messages), self.messages[0].position if self.messages else 0)

    def _fill(self, message: RingMessage, queue: int, *, waits: bool) -> None:
        """Queue the copies that the ring has space for, or with `waits` the rest of the message."""
        ring, allowed = self.ring, message.position
        address, left = message.remaining()
        for reaches, target, offset, size in ring.pieces(message.position, left, message.step):
            if reaches > allowed and not self._has_space(reaches):
                if not waits:
                    return
                # Each wait stops the copy engine for 2.5 us, so wait once per half of the ring.
                most = reaches + ring.units // 2 - units(message.step)
                allowed = min(message.end, max(reaches, most))
                self.wait(queue, self._consumed, allowed - ring.units)
            self.copy(target, address + offset, size, queue)
            if not (waits or message.short) and len(self._copying) < _MOST_COPYING:
                self._copying.append((self.gpu.record(queue), reaches))
            self.count(message, queue, self._produced, reaches)
            message.position = reaches

    def poll(self) -> None:
        if self._copying:
            with self._lock:
                while self._copying and self.gpu.passed(self._copying[0][0]):
                    self.ring.acknowledge(self._copying.popleft()[1])
