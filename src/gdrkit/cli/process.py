"""Speed up start and end of a short-lived process; the output does not change."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False  # typing takes longer to import than `gdr --help` takes
if TYPE_CHECKING:
    from typing import Any

COLLECT_AFTER = 100_000
"""New objects between two garbage collections. Python's default of 700 suits a long-running process; this
one creates some 60,000 objects and keeps most of them."""
SIGINT = 2
ENDING = (1, SIGINT, 15)
"""The signals that ask a process to end: SIGHUP, SIGINT, SIGTERM. Source: signal(7)."""


def begin() -> None:
    """Prepare the process; call before a command is imported."""
    gc.set_threshold(COLLECT_AFTER)
    _end_in_order()
    _import_msgspec()


def _end_in_order() -> None:
    """What asks the process to end (systemd, Slurm, timeout(1), a terminal that closes) ends it as Ctrl-C
    does: what it started ends too, and bundles, Pods and jobs of a run are removed. A signal that the caller
    ignores, as nohup(1) does, stays ignored. Programs that are started have the kernel's defaults."""
    import _signal  # type: ignore[import-not-found]  # signal itself takes longer than `gdr --help`

    for number in ENDING:
        if number != SIGINT and _signal.getsignal(number) == _signal.SIG_DFL:
            _answer(number, _interrupt)

    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _interrupt_again


def _interrupt(number: int, frame: object) -> None:
    raise Ended(number)


def _interrupt_again(lost: Any) -> None:
    """Interrupt again, a little later, where Python could not raise it: in a destructor, or in a callback of
    its imports. It would print a traceback, and go on. An interrupt other than Ctrl-C names its signal."""
    number = getattr(
        lost.exc_value, "number", SIGINT if isinstance(lost.exc_value, KeyboardInterrupt) else None
    )
    if number is None:
        sys.__unraisablehook__(lost)
        return
    import _signal
    import _thread
    import time

    thread = _thread.get_ident()  # the main one: no other handles signals

    def later() -> None:
        time.sleep(0.01)
        if callable(_signal.getsignal(number)):  # else the command has ended, or its deadline has
            _signal.pthread_kill(thread, number)  # ends a system call too, as interrupt_main does not

    _thread.start_new_thread(later, ())


class Ended(KeyboardInterrupt):
    """The process was asked to end by a signal other than Ctrl-C's."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.exit_code = 128 + number  # as a shell shows it: bash(1), EXIT STATUS


def _answer(number: int, how: object) -> None:
    """Handle a signal; nothing outside of the main thread, the only one that may: signal(3) of Python."""
    import _signal

    try:
        _signal.signal(number, how)
    except ValueError:
        return


def _import_msgspec() -> None:
    """Import msgspec, and be interrupted afterwards: its module takes an exception while it looks for the
    interface of datetime for none, and the process dies as soon as it decodes something."""
    import _signal

    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
    try:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, ENDING)
        if "typing_extensions" not in sys.modules:
            _import_msgspec_alone()
        import msgspec  # noqa: F401
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def _import_msgspec_alone() -> None:
    """Import msgspec without typing_extensions, whose import takes 6 ms.

    msgspec prefers typing_extensions if it is installed, but `typing` of Python 3.11 suffices.
    Source: msgspec/_utils.py."""
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


def end() -> None:
    """Skip the two garbage collections of the interpreter at exit: frozen objects are not examined.

    The result is known, so an interrupt changes it no more; Python would print a traceback."""
    import _signal

    for number in ENDING:
        _answer(number, _signal.SIG_IGN)
    gc.freeze()
