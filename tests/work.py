"""A count of work, which unlike time is the same on every machine and under every load."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises AssertionError in the block after some seconds, so that work without end fails a test."""

    def late(number: int, frame: object) -> None:
        raise AssertionError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def steps(work: Callable[..., object], *arguments: object) -> int:
    """The number of Python lines run and C functions called during one call of `work`.

    A call of a C function is one step, however long its input.
    """
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "c_call"

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(line)
    sys.setprofile(call)
    try:
        work(*arguments)
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return count
