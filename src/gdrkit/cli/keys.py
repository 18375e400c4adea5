"""Keys of a terminal while a screen is shown."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Wait = Callable[[float], bool]
"""Waits so many seconds, and returns whether a key ended that."""
END = b"qQ"
_READ_BYTES = 64


@contextmanager
def ended_by_q() -> Iterator[Wait]:
    """A function that waits until q is pressed. Keys are not echoed meanwhile; afterwards the terminal is as
    it was, also after an exception and a signal that raises one (cli/process.py). Without a terminal, and in
    the background, where to set it would stop the process (termios(3), SIGTTOU), keys are left alone."""
    if not _is_in_front():
        yield _only_wait
        return
    import termios

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    quiet = [*before]
    quiet[3] = before[3] & ~(termios.ICANON | termios.ECHO)
    try:
        termios.tcsetattr(keyboard, termios.TCSANOW, quiet)
        yield lambda seconds: _is_ended(keyboard, seconds)
    finally:
        if _is_in_front():
            termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)


def _is_in_front() -> bool:
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # closed, not of this session, or none at all
        return False


def _only_wait(seconds: float) -> bool:
    time.sleep(max(0.0, seconds))
    return False


def _is_ended(keyboard: int, seconds: float) -> bool:
    """Whether q is pressed within some seconds, or was before. The end of the input ends it, too."""
    until = time.monotonic() + seconds
    while select.select([keyboard], [], [], max(0.0, until - time.monotonic()))[0]:
        keys = os.read(keyboard, _READ_BYTES)
        if not keys or set(keys) & set(END):
            return True
    return False
