"""What goes wrong with a target that a user named. PURE, and imports nothing: every reader raises it."""

from __future__ import annotations


class TargetError(ValueError):
    """Why a target cannot be read, in one line; `hint` says what to do instead, and may be empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
