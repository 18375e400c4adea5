"""Make calls that may never return, with a timeout.

A driver provides the content of a file in sysfs or procfs, and may hang if its device fell off the bus. Such
a read cannot be interrupted, only abandoned.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional, Tuple

LIMIT_S = 5.0
"""Timeout of one read. The slowest known one that succeeds, /proc/driver/nvidia/gpus/*/information, wakes a
GPU: 1 to 3 s."""

TOTAL_LIMIT_S = 60.0
"""How long calls that time out may take together; after that each has only BRIEFLY_S. A driver that hangs
does so for hundreds of files."""
BRIEFLY_S = 0.1

_Job = Tuple[Callable[..., Any], Tuple[Any, ...]]


class _ReadThread:
    """A thread that does one job at a time, and may be abandoned during one."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Optional[_Job]] = SimpleQueue()
        self.answers: SimpleQueue[Tuple[Any, Optional[BaseException]]] = SimpleQueue()
        # A daemon: at exit, the interpreter does not wait for a thread that hangs in the kernel.
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
    """Makes calls in another thread, with a timeout for each."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s, self._left_s = limit_s, TOTAL_LIMIT_S
        self._worker: Optional[_ReadThread] = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns. Raises OSError or ValueError as it does, TimeoutError after the
        limit."""
        worker = self._worker = self._worker or _ReadThread()
        worker.jobs.put((function, arguments))
        limit_s = min(self.limit_s, max(BRIEFLY_S, self._left_s))
        try:
            answer, error = worker.answers.get(timeout=limit_s)
        except Empty:
            self._worker = None
            self._left_s -= limit_s
            raise TimeoutError(f"timed out after {limit_s:g} s") from None
        if error is not None:
            raise error
        return answer

    def close(self) -> None:
        """End the thread, unless it hangs."""
        if self._worker is not None:
            self._worker.jobs.put(None)
            self._worker = None
