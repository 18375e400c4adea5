"""Reference data outside of the repository, which only its maintainers have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("GDRKIT_SHARED", Path(__file__).parent.parent.parent / "shared"))


def shared_files(*patterns: str, holds: bytes = b"") -> list[Any]:
    """The files that match and whose start holds the bytes, sorted, as parameters of a test; if none, one
    parameter that skips it."""
    found = sorted(path for pattern in patterns for path in FOLDER.glob(pattern))
    rows = [pytest.param(path, id=path.name) for path in found if holds in path.read_bytes()[:4096]]
    reason = f"set GDRKIT_SHARED to a folder with {patterns[0]}"
    return rows or [pytest.param(None, id="none", marks=pytest.mark.skip(reason))]
