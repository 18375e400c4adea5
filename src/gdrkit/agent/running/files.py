"""Small files of the kernel, read whole; those that are absent or may not be read are empty."""

from __future__ import annotations

import os
from typing import List


def text_of(path: str, limit_bytes: int = 1 << 14) -> str:
    """The text without white space at both ends; empty if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(limit_bytes).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def namespace(pid: str, kind: str = "net", proc: str = "/proc") -> str:
    """The name of a namespace of a process, such as `net:[4026531840]`; empty if it cannot be read."""
    try:
        return os.readlink("%s/%s/ns/%s" % (proc, pid, kind))
    except OSError:
        return ""


def names_in(folder: str) -> List[str]:
    """The names in a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
