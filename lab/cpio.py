"""Initramfs archives (cpio "newc", Documentation/driver-api/early-userspace/buffer-format.rst).

All entries are owned by root and have time 0, so that equal trees give equal archives.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path


class Entry:
    """One file, folder or link of an archive."""

    __slots__ = ("content", "mode")

    def __init__(self, content: bytes, mode: int) -> None:
        self.content, self.mode = content, mode


def tree(root: Path) -> dict[str, Entry]:
    """Entries of a folder on this machine, by relative path."""
    entries: dict[str, Entry] = {}
    for folder, folders, files in os.walk(root):
        for name in sorted(folders + files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                content = str(path.readlink()).encode()
            elif stat.S_ISREG(mode):
                content = path.read_bytes()
            else:
                content = b""
            entries[str(path.relative_to(root))] = Entry(content, mode)
    return entries


def files(contents: Mapping[str, bytes], mode: int = 0o644) -> dict[str, Entry]:
    """Entries of regular files and their parent folders."""
    entries: dict[str, Entry] = {}
    for path, content in contents.items():
        parts = path.split("/")
        for end in range(1, len(parts)):
            entries.setdefault("/".join(parts[:end]), Entry(b"", stat.S_IFDIR | 0o755))
        entries[path] = Entry(content, stat.S_IFREG | mode)
    return entries


def links(targets: Mapping[str, str]) -> dict[str, Entry]:
    """Entries of symbolic links and their parent folders."""
    folders = {
        path: entry for path, entry in files(dict.fromkeys(targets, b"")).items() if path not in targets
    }
    return folders | {path: Entry(target.encode(), stat.S_IFLNK | 0o777) for path, target in targets.items()}


def pack(entries: Mapping[str, Entry]) -> bytes:
    """The archive, with folders before their contents."""
    parts: list[bytes] = []
    for number, path in enumerate(sorted(entries), 1):
        parts.append(_record(path, entries[path], number))
    parts.append(_record("TRAILER!!!", Entry(b"", 0), 0))
    return b"".join(parts)


def _record(path: str, entry: Entry, number: int) -> bytes:
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return header + bytes(-len(header) % 4) + entry.content + bytes(-len(entry.content) % 4)
