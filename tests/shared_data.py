"""Reference data that lies beside the repository where its makers work, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("GDRKIT_SHARED", Path(__file__).parent.parent.parent / "shared"))


def shared_files(*patterns: str) -> list[Path]:
    """The files that match, sorted; none where the folder is not there."""
    return sorted(path for pattern in patterns for path in FOLDER.glob(pattern))
