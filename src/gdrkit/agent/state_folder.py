"""Where gdrkit keeps what it did, for the user who runs it."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder(name: str) -> Path:
    """The folder of one command. Source: XDG Base Directory Specification 0.8, $XDG_STATE_HOME."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        state = Path("~/.local/state").expanduser()
    return state / "gdrkit" / name
