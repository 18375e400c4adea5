"""Calls that may never come back, with a limit on how long anybody waits for them.

A file of sysfs or procfs is answered by a driver, and a driver whose device fell off the bus may not answer:
such a read cannot be interrupted, only left behind.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional, Tuple

LIMIT_S = 5.0
"""How long one read may take. The slowest known good one is /proc/driver/nvidia/gpus/*/information, which
wakes a sleeping GPU: 1 to 3 s."""

_Job = Tuple[Callable[..., Any], Tuple[Any, ...]]


class _Worker:
    """One thread that does one job at a time, and may be abandoned in the middle of it."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Optional[_Job]] = SimpleQueue()
        self.answers: SimpleQueue[Tuple[Any, Optional[BaseException]]] = SimpleQueue()
        # A daemon, so that the interpreter does not wait at exit for a thread that hangs in the kernel.
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            job = self.jobs.get()
            if job is None:
                return
            call, arguments = job
            try:
                self.answers.put((call(*arguments), None))
            except (OSError, ValueError) as error:
                self.answers.put((None, error))


class TimeLimitedCalls:
    """Makes calls in another thread; raises TimeoutError for those that take longer than the limit."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._worker: Optional[_Worker] = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns, or raises (OSError or ValueError, as reading does)."""
        worker = self._worker = self._worker or _Worker()
        worker.jobs.put((function, arguments))
        try:
            answer, error = worker.answers.get(timeout=self.limit_s)
        except Empty:
            self._worker = None
            raise TimeoutError(f"no answer within {self.limit_s:g} s") from None
        if error is not None:
            raise error
        return answer

    def close(self) -> None:
        """Let the thread end, if it can."""
        if self._worker is not None:
            self._worker.jobs.put(None)
            self._worker = None
