"""Work, counted: the same on every machine and under every load, as no time is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[..., object], *arguments: object) -> int:
    """How many lines of Python run and how many functions of C are called while `work` runs, once.

    What one call into C does is one step, however long its input.
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
