"""A count of work, which unlike time is the same on every machine and under every load."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

from tools.fuzz.target import limited


def within(seconds: float) -> AbstractContextManager[None]:
    """Raises TooLong in the block after some seconds, so that work or waiting without end fails a test."""
    return limited(seconds, signal.ITIMER_REAL)


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


def open_files() -> int:
    """The number of files, pipes and sockets that this process holds open."""
    return len([*Path("/proc/self/fd").iterdir()])
