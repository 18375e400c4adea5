"""What a process that lives for a tenth of a second need not do. This saves time, and changes nothing."""

from __future__ import annotations

import gc
import sys

COLLECT_AFTER = 100_000
"""Objects between two looks for garbage in cycles. Python's own 700 suit a process that goes on; this one
makes some 60,000 and keeps most of them."""


def begin() -> None:
    """Before a command is imported."""
    gc.set_threshold(COLLECT_AFTER)
    if "typing_extensions" not in sys.modules:
        _import_msgspec_alone()


def _import_msgspec_alone() -> None:
    """msgspec asks typing_extensions first where some other package brought it, and it takes 6 ms to import.

    The typing of Python 3.11 has all that msgspec wants of it: msgspec/_utils.py."""
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


def end() -> None:
    """On the way out the interpreter looks for garbage twice; what is frozen it passes over."""
    gc.freeze()
