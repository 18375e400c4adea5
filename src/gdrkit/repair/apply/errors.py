"""Errors that stop a fix."""

from __future__ import annotations


class ApplyError(Exception):
    """A change failed or was refused. `hint` says what to do; it may be empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class AlreadyRunning(ApplyError):
    """Another `gdr fix` is running."""
