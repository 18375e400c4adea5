"""Progress of messages that advance in small steps: the thread that waits for one takes the steps, and if no
thread waits, a background thread.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext

from gdrkit.transport.errors import TransportError
from gdrkit.transport.native.cuda import CudaError
from gdrkit.transport.operation import pause, yield_cpu

SLOW_SECONDS = 300e-6  # two chunks of 7 MB at 50 GB/s: the copy engine is busy for this long
_LINGER_SECONDS, _LINGER_INTERVAL = 1.0, 5e-3
"""After a message the background thread looks for others by itself for a while: waking it for each message
would take the interpreter's lock from the thread that is about to wait for that message.
"""


class Progress(ABC):
    """The lock, the waiting threads and the background thread of one direction."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # a message was added or finished
        self._last_progress = 0.0  # when a thread last checked whether more can be done
        self._progressing: list[int] = []  # threads that check until their message is finished
        self._waited_at = 0.0  # when a thread last began or ended to wait
        self._urgent = False  # no thread is expected to wait for what is pending
        self.partner: Progress | None = None  # the other direction, which a waiting thread drives too
        self._asleep = True  # the background thread looks only when it is notified
        self._closed = False
        self._progress_thread: threading.Thread | None = None
        self._failed: Exception | None = None  # CudaError, TransportError

    @property
    @abstractmethod
    def pending(self) -> bool:
        """Whether there is anything to drive."""

    def _context(self) -> AbstractContextManager[object]:
        """The context in which `_advance` runs."""
        return nullcontext()

    @abstractmethod
    def _can_advance(self) -> bool:
        """Whether the other side is far enough for a step."""

    @abstractmethod
    def _advance(self) -> bool:
        """Take all steps that are possible now, without waiting. Whether there were any. Holds the lock."""

    def _interval(self, waited: float) -> float:
        """Seconds until the background thread's next check, `waited` seconds after the last step."""
        return max(SLOW_SECONDS, pause(waited))

    needs_thread = True
    """Whether the other side waits for steps that are taken here."""

    def _drive(self, *, at_once: bool = False) -> None:
        """Let the background thread drive what is pending now, unless a thread waits. Holds the lock.

        If a thread has just waited, the background thread leaves it a while to wait for this message too,
        unless it has to be `at_once`; likewise if the other side does not wait.
        """
        if not self.pending:
            self._urgent = False
        else:
            now = self._last_progress = time.monotonic()
            self._urgent |= self.needs_thread and (at_once or now - self._waited_at > _LINGER_INTERVAL)
            if self._asleep or self._urgent:
                self._changed.notify()
            if self._progress_thread is None:
                self._progress_thread = threading.Thread(
                    target=self._progress_loop, name="gdrkit-progress", daemon=True
                )
                self._progress_thread.start()

    def progress(self) -> None:
        """Do what can be done now, in both directions. A thread that waits for a message calls this while
        `pending`.
        """
        self._progress()
        if self.partner is not None and self.partner.pending:
            self.partner._progress()

    def _progress(self) -> None:
        with self._lock:
            if threading.get_ident() in self._progressing:
                self._advance()
                return
            self._last_progress = time.monotonic()
            if self.pending and self._can_advance():
                with self._context():
                    self._advance()

    def progressing(self) -> Progressing:
        """A context for a thread that only drives progress: the background thread sleeps."""
        return Progressing(self, self._context())

    def _progress_loop(self) -> None:
        """Drive messages that no thread waits for."""
        with self._context(), self._lock:
            begun = time.monotonic()
            while not self._closed:
                self._urgent &= self.pending
                if not self.pending or self._progressing or self._is_driven():
                    self._asleep = time.monotonic() - self._last_progress > _LINGER_SECONDS
                    self._changed.wait(None if self._asleep else _LINGER_INTERVAL)
                    self._asleep = False
                    begun = time.monotonic()
                    continue
                interval = self._sleep(time.monotonic() - begun)
                due = time.monotonic() - self._last_progress >= interval
                if due and self.pending and self._can_advance():
                    try:
                        if self._advance():
                            begun = time.monotonic()
                    except (CudaError, TransportError) as error:
                        self._failed = error
                        return

    def _is_driven(self) -> bool:
        """Whether another thread drives this, or is about to wait for a message."""
        return not self._urgent and time.monotonic() - self._last_progress < _LINGER_INTERVAL

    def _sleep(self, waited: float) -> float:
        if interval := self._interval(waited):
            self._changed.wait(interval)
        else:
            self._lock.release()
            yield_cpu()
            self._lock.acquire()
        return interval

    def abandon(self) -> None:
        """Do nothing more. Returns when no other thread drives progress: those that did see the connection
        as broken, and stop.
        """
        with self._lock:
            self._closed = True
            self._forget()
            self._changed.notify()
        if self._progress_thread:
            self._progress_thread.join()
        me = threading.get_ident()
        while any(thread != me for thread in self._progressing):
            yield_cpu()

    @abstractmethod
    def _forget(self) -> None:
        """Drop all that is pending. Holds the lock."""


class Progressing:
    """A class and not a generator, for speed: one is made for every message that is waited for."""

    __slots__ = ("_context", "_progress")

    def __init__(self, progress: Progress, context: AbstractContextManager[object]) -> None:
        self._progress, self._context = progress, context

    def __enter__(self) -> None:
        self._context.__enter__()
        with self._progress._lock:
            self._waits()
            self._progress._progressing.append(threading.get_ident())

    def __exit__(self, *error: object) -> None:
        with self._progress._lock:
            self._progress._progressing.remove(threading.get_ident())
            self._waits()
            if not self._progress.pending:
                self._progress._urgent = False
            elif self._progress._urgent or self._progress._asleep:
                self._progress._changed.notify()
        self._context.__exit__(None, None, None)

    def _waits(self) -> None:
        now = self._progress._waited_at = time.monotonic()
        if self._progress.partner is not None:
            self._progress.partner._waited_at = now
