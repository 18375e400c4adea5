"""A time in words, as reports of runs print it."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A time in seconds or minutes."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
