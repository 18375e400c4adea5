"""The path `shared`, within a node: each GPU copies to or from pinned memory that both processes map.

The sender's stream waits for space in a ring and copies a chunk into it; then the producer's counter is
updated. The receiver's stream waits for that, copies the chunk out, and the consumer's counter is updated.
Host memory uses the same rings; a thread copies it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.engine import Engine
from gdrkit.transport.errors import PeerLost
from gdrkit.transport.message import Message
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.operation import Operation
from gdrkit.transport.progress import Progress
from gdrkit.transport.ring import SLOTS, WRAP, Ring, reached
from gdrkit.transport.ring_consumer import RingConsumer
from gdrkit.transport.ring_producer import RingProducer
from gdrkit.transport.ring_threads import RingThreads
from gdrkit.transport.steps import Steps

_FAILURE_POLLS = 256  # calls of `done` between checks for a GPU failure
_PATIENCE_SECONDS = 1.0
"""How long a close in good order leaves the other side to take what is still queued."""
_RENEW_UNITS = WRAP // 4  # an older acknowledgement would appear to be ahead, since counters wrap around


class SharedDirection(RingThreads):
    """One direction, on one side. Chunks are numbered when they are queued, so the two kinds of movers (a
    GPU's streams, a thread) must not work at the same time: a change of kind waits for the messages in
    flight.
    """

    def __init__(self, ring: Ring, sending: bool) -> None:
        super().__init__(ring, sending)
        self._begun = 0  # messages
        self._renewed = 0  # our position when we last renewed the acknowledgement
        self._mover: int | None = None  # a CUDA ordinal; None is the thread
        self._last: Operation | None = None
        self._gpus: dict[int, Engine] = {}

    def begin(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        """Queue a message. A sender waits here until the receiver has the SLOTSth message before it."""
        if self.gone:
            raise PeerLost("the connection is broken")
        if self._mover != what.device and (last := self._last) is not None:
            self.until(lambda: last.done())
        self._mover = what.device
        gpu = None if what.device is None else self._gpus[what.device]
        message = SharedMessage(self, self._begun, what, crc32, gpu)
        self._begun += 1
        if self.sending and message.number >= SLOTS:
            slot, earlier = message.slot, (message.word - SLOTS) % WRAP
            if slot.arrived != earlier:
                self.until(lambda: slot.arrived == earlier)
        begin = self.take(what.size_bytes)
        message.end = self._position
        idle = self._ours[0] == begin % WRAP
        step = self.ring.step(what.size_bytes, busy=not idle)
        if gpu is None:
            self._last = self.queue.put(self._move_on_host(message, begin, step))
        else:
            with gpu.driver.on(gpu.device):
                gpu.move(what, begin, step, stream, idle=idle)
            self._last = message
        if self.sending:  # after the copies are started: the receiver needs it only when they have arrived
            message.announce()
            if self._position - self._renewed >= _RENEW_UNITS:
                self._renewed = self._position
                self.ring.acknowledge(self.ring.filled)
        return self._last

    def _move_on_host(self, message: Message, begin: int, step: int) -> Steps:
        if not self.sending:
            yield from self.wait_for(lambda: message.slot.announced == message.word)
            message.accept()
        yield from self.move(message.what, begin, step)
        if not self.sending:
            message.finish()
        return message.crc32

    def prepare(self, device: int) -> None:
        """Pin the ring and create the streams, once for each device."""
        if device not in self._gpus:
            self.ring.pin(device)
            with cuda().on(device):
                self._gpus[device] = (RingProducer if self.sending else RingConsumer)(self.ring, device)

    def drivers(self) -> list[Progress]:
        return [self.queue, *(engine for _, engine in sorted(self._gpus.items()))]

    def reached(self, position: int) -> bool:
        """Whether our side has finished all chunks before that position, before any side gave up."""
        return reached(self._ours[0], position) and not self.ring.given_up

    def close(self) -> None:
        """End our thread and streams, then unmap the ring. Until they have ended, their wait conditions
        are kept satisfied.
        """
        patience = 0.0 if self.gone else _PATIENCE_SECONDS
        self.gone = True
        while self._gpus:
            self._gpus.popitem()[1].close(self.poison, patience)
        self._last = None
        super().close()


class SharedMessage(Message):
    """A message whose copies are queued. The counters show when it is done, without driver calls."""

    def __init__(
        self, direction: SharedDirection, number: int, what: Buffer, crc32: int | None, gpu: Engine | None
    ) -> None:
        super().__init__(direction.ring, number, what, crc32)
        self._direction, self._gpu = direction, gpu
        self.end = 0  # in the ring's units
        self._accepted = direction.sending  # the receiver has to check for the announcement
        self._polls = 0
        self._seen = (0, 0, 0)  # the counters
        self._finished = False

    def progressing(self) -> AbstractContextManager[None]:
        assert self._gpu
        return self._gpu.progressing()

    def has_news(self) -> bool:
        gpu = self._gpu
        assert gpu
        gpu.poll()
        if (now := self.ring.counters()) == self._seen:
            return False
        self._seen = now
        if gpu.messages:  # at once: everything waits for the next copy
            gpu.progress()
        return True

    def done(self) -> bool:
        if self._finished:
            return True
        if self._direction.gone:
            raise PeerLost("the other process is gone")
        gpu = self._gpu
        assert gpu
        self._polls += 1
        if self._polls % _FAILURE_POLLS == 0:
            gpu.raise_failure()
        if gpu.messages:
            gpu.progress()
        self._accepted = self._accepted or self.accept()
        if not (self._accepted and self._direction.reached(self.end)):
            return False
        self._finished = True
        if not self._direction.sending:
            self.finish()
        return True
