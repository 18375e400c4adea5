"""Why a fix stopped, in words for a person."""

from __future__ import annotations


class ApplyError(Exception):
    """A change could not be made, or would not be right. `hint` says what to do; it may be empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class AlreadyRunning(ApplyError):
    """Another gdrkit is at work here."""
