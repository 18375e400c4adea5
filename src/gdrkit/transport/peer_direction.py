"""The path `peer`: one GPU's copy engine writes into the other's memory, over NVLink if there is one, else
over PCIe.

The receiver posts in shared memory where a message goes to; the sender copies it there and sets a word, for
which CPUs and streams wait. A stream that receives needs no thread of its process: it posts and waits by
itself. Threads move a message through the ring in shared memory if one end is host memory, or is GPU memory
that CUDA has no IPC handle for: memory of cuMemCreate, which PyTorch uses with expandable segments. Source:
CUDA driver API, cuIpcGetMemHandle.

As in `engine`, a copy is queued only when it can run, and no queued work waits for work that is queued here
later. A stream that waits for a word may block other streams' writes of words (seen on H200s), so whatever a
stream writes, a thread writes too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import PeerLost
from gdrkit.transport.gpu import Gpu
from gdrkit.transport.message import Message
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.operation import Operation
from gdrkit.transport.progress import Progress, Progressing
from gdrkit.transport.ring import Ring
from gdrkit.transport.ring_threads import RingThreads


class PeerMessage(Message):
    """A message. `gpu` is None for host memory. `ready` is an event: at first the memory may be used after
    it; once a copy has started, the memory is copied after it. `staged` is its operation if threads move the
    message through the ring. `landing` is where they put a single byte for a stream; once `crossed` says
    so it is on the GPU, where the stream copies it; after `landed`, another event, it has.
    """

    def __init__(self, direction: PeerDirection, what: Buffer, crc32: int | None) -> None:
        super().__init__(direction.ring, direction.begun, what, crc32)
        self._direction = direction
        self.gpu = None if what.device is None else direction.gpus[what.device]
        self.ready: int | None = None
        self.staged: Operation | None = None
        self.landing: Buffer | None = None
        self.crossed: Callable[[], bool] | None = None
        self.landed: int | None = None
        self.finished = False

    def context(self) -> AbstractContextManager[object]:
        """Its GPU's context."""
        return nullcontext() if self.what.device is None else cuda().on(self.what.device)

    def is_ready(self) -> bool:
        """Whether the event has passed. The context must be current."""
        if self.gpu and self.ready is not None and self.gpu.passed(self.ready):
            self.ready = None
        return self.ready is None

    def progressing(self) -> AbstractContextManager[None]:
        return Progressing(self._direction, self.context())

    def has_news(self) -> bool:
        return self._direction.has_news(self)

    def done(self) -> bool:
        if self._direction.gone and self.slot.arrived == self.word:
            return True
        if not self.finished:
            self._direction.check()
        return self.finished


class PeerDirection(Progress):
    """The common part of both directions."""

    def __init__(self, ring: Ring, sending: bool) -> None:
        super().__init__()
        self.ring, self.staging = ring, RingThreads(ring, sending)
        self.gone = False
        self.begun = 0  # messages
        self.gpus: dict[int, Gpu] = {}
        self._waiting, self._moving = deque[PeerMessage](), deque[PeerMessage]()

    def prepare(self, device: int) -> None:
        """Pin the ring, with its slots, and create what a device needs, once."""
        if device not in self.gpus:
            self.ring.pin(device)
            self.gpus[device] = Gpu(device)

    def drivers(self) -> list[Progress]:
        """What drives messages."""
        return [self, self.staging.queue]

    def begin(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        """Start a message, after the work that is queued on the stream now."""
        with self._lock:
            if self.gone:
                raise PeerLost("the connection is broken")
            message = PeerMessage(self, what, crc32)
            self.begun += 1
            with message.context():
                if message.gpu and stream is not None:
                    self._order(message, message.gpu, stream)
                self._waiting.append(message)
                self._advance()
                if stream is not None:
                    self._advance_shortly()
                self._drive(at_once=stream is not None)
        return message

    def _order(self, message: PeerMessage, gpu: Gpu, stream: int) -> None:
        """Put the message between the work queued on a stream now, and that queued later."""
        message.ready = gpu.record(stream)
        self._enter(message, gpu, stream)
        address = self.ring.on_device(message.slot, "arrived")
        gpu.wait(stream, address, message.word)
        self._leave(message, gpu, stream)
        gpu.mark(stream)

    def _enter(self, message: PeerMessage, gpu: Gpu, stream: int) -> None:
        """Queue what precedes the wait of a program's stream for the message."""
        return

    def _leave(self, message: PeerMessage, gpu: Gpu, stream: int) -> None:
        """Queue what follows the wait of a program's stream for the message."""
        return

    def _advance_shortly(self) -> None:
        """Take the steps that are possible in less time than another thread needs to wake up."""
        return

    @property
    def pending(self) -> bool:
        return bool(self._waiting or self._moving)

    def _can_advance(self) -> bool:
        return not self.gone

    def _forget(self) -> None:
        self._waiting.clear()
        self._moving.clear()

    def _advance(self) -> bool:
        before = len(self._waiting), len(self._moving)
        while self._moving and self._has_moved(self._moving[0]):
            self._moving.popleft().finished = True
        while self._waiting and self._start(self._waiting[0]):
            self._moving.append(self._waiting.popleft())
        return before != (len(self._waiting), len(self._moving))

    @abstractmethod
    def _start(self, message: PeerMessage) -> bool:
        """Start the first message that waits, if that is possible now. Whether it was."""

    @abstractmethod
    def _has_moved(self, message: PeerMessage) -> bool:
        """Whether the first message that was started is in place."""

    @abstractmethod
    def has_news(self, message: PeerMessage) -> bool:
        """Whether the words of the message's slot may show something to do. Needs no lock."""

    def check(self) -> None:
        """Do what can be done now. Raises PeerLost, TransportError, CudaError."""
        if self.gone:
            raise PeerLost("the other process is gone")
        self.progress()
        if self._failed:
            raise self._failed

    def release(self) -> None:
        """End all waits. Does not wait itself: a thread that waits for a message may call it."""
        self.gone = True
        self.staging.release()
        self.ring.poison_slots(self.begun)

    def close(self) -> None:
        """Wait for all queued work, with its waits kept satisfied, and free what it needed."""
        self.release()
        self.abandon()
        for gpu in self.gpus.values():
            gpu.close(lambda: self.ring.poison_slots(self.begun))
        self.gpus.clear()
        self.staging.close()
