"""Reference data outside of the repository, which only its maintainers have."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("GDRKIT_SHARED", Path(__file__).parent.parent.parent / "shared"))


def shared_files(*patterns: str) -> list[Path]:
    """The files that match, sorted; [] if the folder does not exist."""
    return sorted(path for pattern in patterns for path in FOLDER.glob(pattern))
