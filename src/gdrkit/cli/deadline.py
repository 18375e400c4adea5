"""A deadline for a whole command: a monitoring system kills what takes longer, and then has no answer."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class DeadlineReached(BaseException):
    """The time is up. Not an Exception: nothing that recovers from errors may catch it."""

    number = signal.SIGALRM


@contextlib.contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise DeadlineReached within the block once so many seconds have passed; None: never.

    What the kernel does not interrupt, such as a read of a file system that never answers, takes longer."""
    if seconds is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _raise(number: int, frame: FrameType | None) -> None:
    raise DeadlineReached
