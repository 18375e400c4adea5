"""What a user may name instead of a machine, and which reader it gets. Content decides, never a name."""

from __future__ import annotations

import os

from gdrkit.evidence import Host
from gdrkit.host.live import LiveHost


class TargetError(ValueError):
    """Why a target cannot be read, in one line; `hint` says what to do instead, and may be empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def open_host(target: str | None) -> Host:
    """The host that a user names: None for this machine, else a path or ssh://host. Raises TargetError."""
    if target is None:
        return LiveHost()
    if not os.path.exists(target):
        raise TargetError(f"{target}: no such file or directory")
    from gdrkit.host.tree import open_tree

    return open_tree(target)
