"""Speed up start and end of a short-lived process; the output does not change."""

from __future__ import annotations

import gc
import sys

COLLECT_AFTER = 100_000
"""New objects between two garbage collections. Python's default of 700 suits a long-running process; this
one creates some 60,000 objects and keeps most of them."""


def begin() -> None:
    """Prepare the process; call before a command is imported."""
    gc.set_threshold(COLLECT_AFTER)
    if "typing_extensions" not in sys.modules:
        _import_msgspec_alone()


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
    import _signal  # type: ignore[import-not-found]  # signal itself takes longer than `gdr --help`

    try:  # noqa: SIM105, contextlib takes longer than `gdr --help`
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    except ValueError:  # not the main thread
        pass
    gc.freeze()
