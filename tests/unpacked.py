"""Archives that are known to be harmless, such as those that gdr itself writes, as folders."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract an archive, with the filter for data where this Python has one. `extractall(filter=)` needs
    3.11.4: "Supporting older Python versions" in the documentation of tarfile."""
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(folder)
