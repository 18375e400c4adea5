"""The error of a target that cannot be read. This module imports nothing, so every reader can raise it."""

from __future__ import annotations

LONGEST_CHARACTERS = 5000
"""Of a message: a path has 4,096 at most, and what a node or a program prints has no end."""


class TargetError(ValueError):
    """Why a target cannot be read, in one line; `hint` says what to do, and may be empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message[:LONGEST_CHARACTERS])
        self.hint = hint
