"""One direction of a ring, moved by a GPU's copy engines: no byte goes through the CPU.

Counting in the stream that copies would stop its copy engine for 2 us more each time, so that is done by
another stream. But a stream that waits looks only every 8 us whether it may go on (both measured on H200s).
So a short message, and the end of one that was alone when it began, are counted by the stream that copies;
and a sender who waits notices by itself what is copied, and says so.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from gdrkit.agent.native.cuda_abi import EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.native.cuda import CudaError, cuda
from gdrkit.transport.operation import pause, until
from gdrkit.transport.ring import UNIT_BYTES, WRAP, Ring, units
from gdrkit.transport.stream_events import StreamEvents

_SHORT = 2  # chunks: up to that, fewer calls save more than the pauses cost
_UNATTENDED_SECONDS = 300e-6  # two chunks of 7 MB at 50 GB/s: so long the engine has something to do


class RingMessage(NamedTuple):
    """A message that takes the ring's units from `begin` to `end`, in chunks of `step` bytes. `alone`: there
    was nothing to be counted when it began. `short`: it was alone, and has few chunks.
    """

    what: Buffer
    begin: int
    end: int
    step: int
    alone: bool
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
        self._ends = StreamEvents()
        self._record = self.driver.function("cuEventRecord")
        self._join = self.driver.function("cuStreamWaitEvent")
        self._wait = self.driver.function("cuStreamWaitValue32_v2")
        self._write = self.driver.function("cuStreamWriteValue32_v2")
        self._copy = self.driver.function("cuMemcpyAsync")
        self._produced = ring.on_device(ring.produced)
        self._consumed = ring.on_device(ring.consumed)
        self.messages: deque[RingMessage] = deque()  # that have no place in a stream, and are not all queued
        self._position = 0  # in the first of them: as far as copies are queued
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # there is a message, or it is over
        self._attended = 0.0  # when somebody last looked whether more can be queued
        self._attending: list[int] = []  # threads that do so until their message is over
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

    def count(self, message: RingMessage, stream: int, counter: int, reaches: int) -> None:
        """Set a counter to the unit that a message reaches when a stream has come so far. No count comes
        before an earlier one: it would be taken back.
        """
        there = message.short or (message.alone and reaches == message.end)
        if not there:
            self.follow(self._counting, stream)
        elif not message.short:
            self.follow(stream, self._counting)
        self.call(self._write, stream if there else self._counting, counter, reaches % WRAP, 0)

    def move(self, what: Buffer, begin: int, step: int, stream: int | None, *, idle: bool) -> None:
        """Queue a message: after what the program has queued on its stream, before what it will queue;
        None is no stream of the program's.

        It takes the ring's units from `begin`, in chunks of `step` bytes. `idle` tells that nothing of an
        earlier message is left to be counted.
        """
        short = idle and what.size_bytes <= _SHORT * step
        message = RingMessage(what, begin, begin + units(what.size_bytes), step, idle, short)
        with self._lock:
            if stream is not None:
                self._queue_all()
            self._move(message, stream, idle)

    @abstractmethod
    def _move(self, message: RingMessage, stream: int | None, idle: bool) -> None:
        """Queue a message; on a stream, nothing without a place in one is left before it."""

    @abstractmethod
    def _queue(self, message: RingMessage, position: int) -> None:
        """Queue what is left of a message with no place in a stream, with waits for the other side."""

    @abstractmethod
    def _can_advance(self) -> bool:
        """Whether the other side is far enough for more to be queued. There is a message."""

    @abstractmethod
    def _advance(self) -> None:
        """Queue what can be queued without a wait for the other side. The context is current."""

    def _expect(self, message: RingMessage) -> None:
        """Queue a message piece by piece: now what can be, the rest when somebody attends to it."""
        if not self.messages:
            self._position = message.begin
        self.messages.append(message)
        self._advance()
        if self.messages:
            self._attended = time.monotonic()
            self._changed.notify()
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, name="gdrkit-keeper", daemon=True)
                self._keeper.start()

    def _next(self) -> None:
        self.messages.popleft()
        if self.messages:
            self._position = self.messages[0].begin

    def _queue_all(self) -> None:
        while self.messages:
            self._queue(self.messages[0], self._position)
            self._next()

    def progress(self) -> None:
        """Queue what can be by now. To be called by who waits for a message, while there are `messages`."""
        with self._lock:
            if threading.get_ident() in self._attending:
                self._advance()
                return
            self._attended = time.monotonic()
            if self.messages and self._can_advance():
                with self.driver.on(self.device):
                    self._advance()

    def progressing(self) -> _Attending:
        """While this thread does nothing but attend: our context stays current, our own thread sleeps."""
        return _Attending(self)

    def begin_progress(self) -> None:
        with self._lock:
            self._attending.append(threading.get_ident())

    def end_progress(self) -> None:
        with self._lock:
            self._attending.remove(threading.get_ident())
            if self.messages:
                self._changed.notify()

    def poll(self) -> None:
        """To be called between two looks at the counters by who is `attending`."""
        return

    def _keep(self) -> None:
        """Attend to messages for which nobody waits."""
        self.driver.use(self.device)
        with self._lock:
            begun = time.monotonic()
            while not self._closed:
                if not self.messages or self._attending:
                    self._changed.wait()
                    begun = time.monotonic()
                    continue
                self._changed.wait(max(_UNATTENDED_SECONDS, pause(time.monotonic() - begun)))
                unattended = time.monotonic() - self._attended > _UNATTENDED_SECONDS
                if unattended and self.messages and self._can_advance():
                    try:
                        self._advance()
                    except CudaError as error:
                        self._failed = error
                        return
                    begun = time.monotonic()

    def abandon(self) -> None:
        """Queue nothing more. Returns when nobody attends: who does has been told to stop."""
        with self._lock:
            self._closed = True
            self.messages.clear()
            self._changed.notify()
        if self._keeper:
            self._keeper.join()
        me = threading.get_ident()
        until(lambda: all(thread == me for thread in self._attending))

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


class _Attending:
    """A class, and no generator: it is made for every message that is waited for."""

    __slots__ = ("_engine", "_on")

    def __init__(self, engine: Engine) -> None:
        self._engine, self._on = engine, engine.driver.on(engine.device)

    def __enter__(self) -> None:
        self._on.__enter__()
        self._engine.begin_progress()

    def __exit__(self, *error: object) -> None:
        self._engine.end_progress()
        self._on.__exit__()
