"""The files of a machine on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any


class Files:
    """The folder of a machine: an unpacked bundle or sosreport, or a file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def text(self, path: str) -> str:
        """The content of a file, without the last line end; "" if there is none."""
        file = self.folder / path
        return file.read_text(errors="replace").rstrip("\n") if file.is_file() else ""

    def has(self, path: str) -> bool:
        return (self.folder / path).exists()

    @property
    def name(self) -> str:
        return self.text("proc/sys/kernel/hostname") or self.text("etc/hostname") or "node"

    @property
    def release(self) -> str:
        """The kernel's release."""
        return self.text("proc/sys/kernel/osrelease") or (*self.text("proc/version").split(), "", "", "")[2]

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest of a bundle; empty for anything else."""
        found: dict[str, Any] = json.loads(self.text("gdr_manifest.json") or "{}")
        return found

    def is_empty(self, folder: str) -> bool:
        """Whether the machine has nothing in a folder: it was looked at, and not only left out."""
        below = self.folder / folder
        if below.is_dir() and any(below.iterdir()):
            return False
        known = self.manifest.get("folders", {})
        above = folder.rpartition("/")[0]
        return bool(known) and folder not in self.manifest["files"] and above in known and folder not in {
            path for path, row in known.items() if row["status"] != "listed"
        }  # fmt: skip

    def below(self, pattern: str) -> Iterator[Path]:
        """The files and folders that match, in the order of their names."""
        yield from sorted(self.folder.glob(pattern))
