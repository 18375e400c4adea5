"""Messages that move step by step. The thread that waits for one takes the steps, and if no thread waits, a
background thread: handing a message to another thread takes longer than moving 64 KiB.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial

from gdrkit.transport.operation import Operation, pause, yield_cpu
from gdrkit.transport.progress import Progress

Wait = Callable[[float], object]
"""Lets at most so many seconds pass until the next step; with 0 it does not sleep."""
Steps = Generator[Wait, None, "int | None"]
"""Moves a message: takes all steps that are possible without waiting, then yields how to wait for the next
one. Returns the CRC-32 that the sender announced, or None.
"""
_LOOKS = 40
"""Looks for news before everything else is checked: that takes as long as several looks."""
_EVENT_LOOKS = (
    16  # at 2 us each: another thread needs as long to wake up, and a GPU copies 256 KiB meanwhile
)
_SHORTEST_SLEEP = 50e-6
_SLEEP_SECONDS = 0.01  # at most, where news ends the sleep
_CROWDED_LOOKS, _CROWDED_SECONDS = 1e-3, 0.1
"""Looks that take so long shared their CPU with another thread. For a while nothing spins then, since the
thread that is waited for may be the one that has no CPU.
"""
_libc = ctypes.CDLL(None)
_crowded_until = 0.0


def at_once(seconds: float) -> None:
    """The wait of a message that lets others have a turn."""


def shortly(seconds: float) -> None:
    """The wait for what nothing but another look shows, such as an event of a GPU."""
    if seconds:
        time.sleep(seconds)
    else:
        yield_cpu()


def passed(event: Callable[[], bool]) -> Generator[Wait, None, None]:
    """Steps that end when an event has passed; after that it is not asked again."""
    while not any(event() for _ in range(_EVENT_LOOKS)):
        yield shortly


def _spin(has_news: Callable[[], object]) -> bool:
    """Look for news for some microseconds. Whether there may be some; if not, sleep."""
    global _crowded_until
    begun = time.monotonic()
    if begun < _crowded_until:
        return False
    for _ in range(_LOOKS):
        if has_news():
            return True
        yield_cpu()  # each time: that lets a thread that has copied go on
    if time.monotonic() - begun > _CROWDED_LOOKS:
        _crowded_until = begun + _CROWDED_SECONDS
        return False
    return True


def until(condition: Callable[[], bool]) -> Generator[Wait, None, None]:
    """Steps that end when a condition holds; it is cheap and has no effect."""

    def wait(seconds: float) -> None:
        if seconds or not _spin(condition):
            time.sleep(max(_SHORTEST_SLEEP, seconds))

    while not condition():
        yield wait


def threads_done(threads: Sequence[Future[None]]) -> Generator[Wait, None, None]:
    """Steps that end when all threads have ended. Raises their errors."""

    def wait(seconds: float) -> None:
        # Do not spin: that would take the interpreter's lock from the threads.
        futures.wait(threads, _SLEEP_SECONDS)

    while not all(thread.done() for thread in threads):
        yield wait
    for thread in threads:
        thread.result()


class _PollRecord(ctypes.Structure):
    """struct pollfd of poll(2)."""

    _fields_ = (("descriptor", ctypes.c_int), ("events", ctypes.c_short), ("found", ctypes.c_short))


def socket_wait(descriptor: int, events: int) -> Wait:
    """The wait for a socket. Not with select.poll, which two threads may not use at once."""
    record = _PollRecord(descriptor, events)
    look = partial(_libc.poll, ctypes.byref(record), 1)
    has_news = partial(look, 0)

    def wait(seconds: float) -> None:
        if seconds or not _spin(has_news):
            look(int(_SLEEP_SECONDS * 1e3))

    return wait


class SteppedOperation(Operation):
    """A message in a queue."""

    def __init__(
        self, queue: StepQueue, steps: Steps, context: AbstractContextManager[object] | None
    ) -> None:
        self._queue, self._steps, self._context = queue, steps, context
        self.wait: Wait = at_once
        self._seen: Wait = self.wait
        self._since = 0.0
        self.finished = False
        self._error: Exception | None = None
        self._crc32: int | None = None

    def step(self) -> bool:
        """Take the steps that are possible now. Whether the message is finished."""
        try:
            if self._context is None:
                self.wait = next(self._steps)
            else:
                with self._context:
                    self.wait = next(self._steps)
            return False
        except StopIteration as done:
            self._crc32 = done.value
        except Exception as error:
            self._error = error
        self.finished = True
        return True

    def progressing(self) -> AbstractContextManager[None]:
        return self._queue.progressing()

    def back_off(self, waited: float) -> None:
        wait = self._queue.wait
        if wait is not self._seen:  # the wait for something else has just begun
            self._seen, self._since = wait, waited
        wait(pause(waited - self._since))

    def done(self) -> bool:
        if not self.finished:
            self._queue.progress()
        if self._error:
            raise self._error
        return self.finished

    def expected_crc32(self) -> int | None:
        return self._crc32


class StepQueue(Progress):
    """Messages of one direction, which move one after another."""

    def __init__(self) -> None:
        super().__init__()
        self._queued: deque[SteppedOperation] = deque()

    def put(
        self,
        steps: Steps,
        context: AbstractContextManager[object] | None = None,
        *,
        now: bool = False,
    ) -> SteppedOperation:
        """Add a message, and take the steps that are possible now. `context` is for each step. `now`: do not
        leave the message to a thread that may wait for it soon.
        """
        message = SteppedOperation(self, steps, context)
        with self._lock:
            self._queued.append(message)
            self._advance()
            self._drive(at_once=now)
        return message

    @property
    def wait(self) -> Wait:
        """How to wait for the first message."""
        try:
            return self._queued[0].wait
        except IndexError:
            return at_once

    @property
    def pending(self) -> bool:
        return bool(self._queued)

    def _can_advance(self) -> bool:
        return True

    def _advance(self) -> bool:
        advanced = False
        while self._queued and self._queued[0].step():
            self._queued.popleft()
            advanced = True
        return advanced

    def _sleep(self, waited: float) -> float:
        wait = self.wait
        self._lock.release()
        try:
            wait(max(_SHORTEST_SLEEP, pause(waited)))
        finally:
            self._lock.acquire()
        return 0.0

    def _forget(self) -> None:
        """The messages end by themselves: what they need is shut down."""
        while self._queued:
            self._advance()
            yield_cpu()


def run(steps: Steps) -> None:
    """Take all steps in this thread."""
    begun = 0.0
    seen: Wait | None = None
    for wait in steps:
        if wait is not seen:
            begun, seen = time.monotonic(), wait
        wait(pause(time.monotonic() - begun))
