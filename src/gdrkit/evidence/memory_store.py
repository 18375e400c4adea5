"""A store that keeps files in memory, and large ones in one unnamed temporary file."""

from __future__ import annotations

import enum
import os

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.bundle import FILE, FOLDER, LINK, OTHER
from gdrkit.evidence.missing import not_collected, truncated

IN_MEMORY_BYTES = 1 << 16
"""Larger files go to the temporary file: modules, kallsyms, logs. Files of sysfs are smaller."""

MEMORY_LIMIT_BYTES = 64 << 20
"""The most that all files in memory take together; after that, small ones go to the temporary file too."""

SPILL_LIMIT_BYTES = 2 << 30
"""The largest temporary file. All modules of a distribution kernel, unpacked, take less than 1 GiB."""


class StoredLink(Struct, frozen=True):
    """A symbolic link, with its target as written."""

    target: str


class SpilledFile(Struct, frozen=True):
    """A file in the temporary file: offset and size in bytes."""

    offset: int
    size: int


class UnreadFile(Struct, frozen=True):
    """A file whose content was not kept."""

    why: str
    cut: bool = False


class EmptyEntry(enum.Enum):
    """An entry with neither content nor target."""

    FOLDER = FOLDER
    OTHER = OTHER


Entry = bytes | memoryview | SpilledFile | StoredLink | UnreadFile | EmptyEntry


class MemoryStore:
    """Entries by path. Adding an entry adds the folders above it."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {"": EmptyEntry.FOLDER}
        self.names_size = 0  # characters of all paths
        self._memory = self._spilled = 0
        self._file = -1
        self._mapped: memoryview | None = None
        self._children: dict[str, list[str]] | None = None

    # -- adding entries --------------------------------------------------------------------------------

    def put(self, path: str, entry: Entry) -> None:
        """Add an entry. It replaces an earlier one of the same path, as in tar."""
        if entry is EmptyEntry.FOLDER and path in self.entries:
            return
        self.entries[path] = entry
        self.names_size += len(path)
        self._children = None
        folder = path.rpartition("/")[0]
        while folder not in self.entries:
            self.entries[folder] = EmptyEntry.FOLDER
            self.names_size += len(folder)
            folder = folder.rpartition("/")[0]

    def keep(self, path: str, content: bytes) -> None:
        """Add a file's content, in memory or in the temporary file."""
        if len(content) <= IN_MEMORY_BYTES and self._memory < MEMORY_LIMIT_BYTES:
            self._memory += len(content)
            self.put(path, content)
        elif self._spilled + len(content) > SPILL_LIMIT_BYTES:
            self.put(path, UnreadFile("the archive is larger than gdr keeps"))
        else:
            self.put(path, self._spill(content))

    def _spill(self, content: bytes) -> Entry:
        try:
            if self._file < 0:
                self._file = _temporary_file()
            view = memoryview(content)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            return UnreadFile(f"cannot write to the temporary directory: {error.strerror}")
        spilled = SpilledFile(self._spilled, len(content))
        self._spilled += len(content)
        self._mapped = None
        return spilled

    # -- a store for BundleHost --------------------------------------------------------------------

    def kind(self, path: str) -> str | None:
        entry = self.entries.get(path)
        if entry is None:
            return None
        if isinstance(entry, EmptyEntry):
            return entry.value
        return LINK if isinstance(entry, StoredLink) else FILE

    def target(self, path: str) -> str:
        entry = self.entries[path]
        return entry.target if isinstance(entry, StoredLink) else ""

    def names(self, path: str) -> tuple[str, ...]:
        if self._children is None:
            self._children = {}
            for entry in self.entries:
                if entry:
                    folder, _, name = entry.rpartition("/")
                    self._children.setdefault(folder, []).append(name)
        return tuple(sorted(self._children.get(path, ())))

    def read(self, path: str) -> memoryview:
        entry = self.entries[path]
        if isinstance(entry, (bytes, memoryview)):
            return memoryview(entry)
        if isinstance(entry, SpilledFile):
            return self._view()[entry.offset : entry.offset + entry.size]
        raise _unread(path, entry)

    def _view(self) -> memoryview:
        if self._mapped is None:
            import mmap

            self._mapped = memoryview(mmap.mmap(self._file, 0, access=mmap.ACCESS_READ))
        return self._mapped

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)


def _unread(path: str, entry: Entry) -> EvidenceMissing:
    if isinstance(entry, UnreadFile):
        return truncated(path, entry.why) if entry.cut else not_collected(path, entry.why)
    return not_collected(path, "not a file")


def _temporary_file() -> int:
    """A file descriptor of an unnamed temporary file. Raises OSError.

    Not every file system supports O_TMPFILE (open(2)); then tempfile, which is slow to import, is used."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        from gdrkit.agent.output_file import temporary_file

        with temporary_file() as file:
            return os.dup(file.fileno())
