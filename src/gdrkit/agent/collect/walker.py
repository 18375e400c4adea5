"""Collect the table's files and folders: from patterns to entries of the bundle."""

from __future__ import annotations

import posixpath
import re
import struct
from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from .bundle import Bundle
from .ownership import NotTheirs
from .patterns import alternatives, folders, is_name, select, unfold
from .redact import NEVER_OPENED, is_private
from .reductions import BY_NAME
from .source_rows import FileSource, FolderSource
from .sources import GID_ATTRIBUTES, GIDS, PARTITION_KEYS
from .tree import MOUNT_POINTS, NAMES_LIMIT, FileContent, Tree, outcome

# -- choose the relevant PCI devices, and remove serial numbers from their configuration space --
# Source of classes: PCI Code and ID Assignment Specification 1.11, sections 1.3, 1.4, 1.13, 1.19.

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")

DEVICES_LIMIT = 1024
"""Most devices, virtual functions included: 8 cards with 127 each are 1,016."""

# network, display, InfiniBand, accelerators, coprocessors
_CLASSES = ("0x02", "0x03", "0x0c06", "0x12", "0x0b40")
_NVIDIA = "0x10de"

_SERIAL_NUMBER = 0x0003  # PCI Express Base Specification 6.0, 7.9.3: header, lower half, upper half
_EXTENDED = struct.Struct("<I")


def relevant(devices: Iterable[Tuple[str, str]], read: Callable[[str], bytes]) -> List[str]:
    """Addresses of GPUs, network cards and the bridges above them.

    `devices`: pairs of address and path in sys/devices."""
    chosen: Dict[str, bool] = {}
    for address, path in devices:
        kind = read(f"{path}/class").decode("ascii", "replace").strip()
        vendor = read(f"{path}/vendor").decode("ascii", "replace").strip()
        if len(chosen) < DEVICES_LIMIT and (kind.startswith(_CLASSES) or vendor == _NVIDIA):
            for part in path.split("/"):
                if ADDRESS.match(part):
                    chosen[part] = True
            chosen[address] = True
    return sorted(chosen)


def without_serial_number(config: bytes, replace: Callable[[bytes], bytes]) -> bytes:
    """Configuration space with the card's serial number replaced; equal numbers stay equal."""
    changed = bytearray(config)
    offset, seen = 0x100, set()
    while offset and offset not in seen and offset + 12 <= len(config):
        seen.add(offset)
        header = _EXTENDED.unpack_from(config, offset)[0]
        if header & 0xFFFF == _SERIAL_NUMBER:
            lower, upper = struct.unpack_from("<II", config, offset + 4)
            number = replace(struct.pack(">II", upper, lower))
            upper, lower = struct.unpack(">II", number)
            struct.pack_into("<II", changed, offset + 4, lower, upper)
        offset = header >> 20 & 0xFFC
    return bytes(changed)


SLOT_LIMIT_BYTES = 64  # a GID has 39 characters and a line feed; other entries are shorter


class Walker:
    """Reads each path of the rows once, and records the result."""

    def __init__(self, tree: Tree, bundle: Bundle, release: str) -> None:
        self.tree, self.bundle, self.release = tree, bundle, release
        self._done: Set[str] = set()
        self._listed: Dict[str, Optional[List[str]]] = {}
        self._cards: Optional[List[str]] = None

    # -- rows --------------------------------------------------------------------------------------

    def files(self, row: FileSource) -> None:
        """Collect the files of a row."""
        if row.private:
            self._private(row)
            return
        for path in self.matches(row.pattern, row.listed):
            self.file(path, row)

    def _private(self, row: FileSource) -> None:
        """Collect the files of a private row; of the folders above them, record only the names that lead to
        them."""
        found: List[str] = []
        for whole in unfold(row.pattern):
            self._expand("", whole.split("/"), True, found, self._names)
        top = folders(row.pattern)[0]
        listed: Dict[str, Set[str]] = {top: set()}
        for path in found:
            if self._is_there(path):
                self.file(path, row)
                while path != top:
                    path, _, name = path.rpartition("/")
                    listed.setdefault(path, set()).add(name)
        if self._names(top) is not None:
            for folder, names in listed.items():
                self.bundle.folder(folder, "listed", sorted(names))

    def matches(self, pattern: str, listed: bool = True) -> List[str]:
        """Paths that a pattern of the table matches here, and names to try."""
        found: List[str] = []
        for whole in unfold(pattern.replace("<release>", self.release)):
            paths = [whole.replace("<pci>", card) for card in self._pci()] if "<pci>" in whole else [whole]
            for path in paths:
                self._expand("", path.split("/"), listed, found)
        return found

    def _expand(
        self,
        base: str,
        parts: List[str],
        listed: bool,
        found: List[str],
        list_names: Optional[Callable[[str], Optional[List[str]]]] = None,
    ) -> None:
        part, rest = parts[0], parts[1:]
        names = alternatives(part)
        if not is_name(part) and (listed or not all(map(is_name, names))):
            names = select((list_names or self.listing)(base) or [], names)
        for name in names:
            path = posixpath.join(base, name)
            if rest:
                self._expand(path, rest, listed, found, list_names)
            else:
                found.append(path)

    def folder(self, row: FolderSource, path: str = "", depth: int = 0) -> None:
        """Collect a folder with everything below it, or only its names."""
        path, depth = path or row.path, depth or row.depth
        names = self.listing(path) or []
        if depth == 1 and not row.limit_bytes:
            return
        for name in names:
            here = posixpath.join(path, name)
            is_link, real = self.tree.is_link(here), self.resolved(here)
            if real is None:
                continue
            if self.tree.is_folder(real):
                if is_link or name in row.without:
                    continue
                if depth > 1:
                    self.folder(row, here, depth - 1)
                else:  # the names alone show that it is a folder
                    self.listing(here)
            elif row.limit_bytes:
                self.file(here, FileSource(here, row.why, row.limit_bytes))

    def port_tables(self) -> None:
        """Collect the GIDs and the partition keys in use: a table of 128 or 256 has one or two of them."""
        for folder in self.matches(GIDS.path):
            attributes = posixpath.join(posixpath.dirname(folder), posixpath.basename(GID_ATTRIBUTES.path))
            self._gid_attributes(attributes, self._in_use(folder))
        for folder in self.matches(PARTITION_KEYS.path):
            self._in_use(folder)

    def _in_use(self, folder: str) -> List[str]:
        """Collect the entries of a table that are not zero; returns their indexes."""
        used: Dict[str, FileContent] = {}
        for index in self._names(folder) or []:
            content = self._content(posixpath.join(folder, index), SLOT_LIMIT_BYTES)
            if content is not None and index.isdecimal() and content.data.strip(b"0x:\n"):
                used[index] = content
        real = self.resolved(folder)
        if real is None or not self.tree.is_folder(real):
            return []
        for index, content in used.items():
            self.bundle.file(posixpath.join(real, index), content.data, content.modified_s)
        self.bundle.folder(real, "listed", sorted(used, key=int))
        return sorted(used, key=int)

    def _gid_attributes(self, folder: str, used: List[str]) -> None:
        for kind in self.listing(folder) or []:
            here = posixpath.join(folder, kind)
            kept = []
            for index in used:
                content = self._content(posixpath.join(here, index), SLOT_LIMIT_BYTES)
                if content is not None:
                    kept.append(index)
                    real = self.tree.resolve(posixpath.join(here, index))
                    self.bundle.file(real, content.data, content.modified_s)
            self.bundle.folder(self.tree.resolve(here), "listed", kept)

    # -- one file, one folder ----------------------------------------------------------------------

    def file(self, path: str, row: FileSource) -> Optional[bytes]:
        """Collect one file; for a folder, its names. Returns the content in the bundle, None if there is
        none."""
        real = self.resolved(path)
        if real is None or real in self._done:
            return None
        self._done.add(real)
        if is_private(real) or is_private(path):
            self.bundle.note(real, "denied", NEVER_OPENED)
            return None
        try:
            content = self.tree.read(real, row.limit_bytes, self.tree.owner(path))
        except IsADirectoryError:
            self.listing(
                real
            )  # also if a link led here: a reader of the link asks whether its target exists
            return None
        except (OSError, ValueError) as error:
            self.fails(real, error)
            return None
        data = self._kept(real, content, row)
        status = "found" if content.whole else "truncated"
        if row.reduce and content.whole:
            data = BY_NAME[row.reduce](data)
            status = "reduced" if data != content.data else status
        self.bundle.file(real, data, content.modified_s, status, addresses=row.addresses)
        return data

    def _kept(self, real: str, content: FileContent, row: FileSource) -> bytes:
        if (
            self.bundle.anonymizer is not None
            and posixpath.basename(real) == "config"
            and len(content.data) > 256
        ):
            return without_serial_number(content.data, self.bundle.anonymizer.guid)
        return content.data

    def fails(self, real: str, error: Exception) -> None:
        """Record why a file could not be read."""
        status, why = outcome(error) if isinstance(error, OSError) else ("unreadable", str(error))
        if status == "absent" and self.tree.unmounted(real):
            status, why = "not-collected", "nothing is mounted there"
        elif status == "absent" and self.tree.hidden(real):
            status, why = "denied", "hidden from this user"
        self.bundle.note(real, status, why)

    def listing(self, path: str) -> Optional[List[str]]:
        """The names in a folder, None if it cannot be listed; records the result."""
        if path not in self._listed:
            self._listed[path] = self._list(path)
        return self._listed[path]

    def _list(self, path: str) -> Optional[List[str]]:
        real = self.resolved(path)
        if real is None:
            return None
        try:
            names = self.tree.names(real)
        except NotADirectoryError:
            return None
        except OSError as error:
            status, why = outcome(error)
            if status == "absent" and self.tree.unmounted(real):
                status, why = "not-collected", "nothing is mounted there"
            self.bundle.folder(real, status, why=why)
            return None
        if not names and real in MOUNT_POINTS:
            self.bundle.folder(real, "not-collected", why="nothing is mounted there")
        elif len(names) > NAMES_LIMIT:
            self.bundle.folder(real, "truncated", why=f"more than {NAMES_LIMIT} names")
        else:
            self.bundle.folder(real, "listed", names)
        return names

    # -- reading without recording ---------------------------------------------------------------------

    def resolved(self, path: str) -> Optional[str]:
        """The path with its links followed; None, and recorded, if they cannot be followed."""
        try:
            return self.tree.resolve(path)
        except OSError as error:
            self.bundle.note(path, *outcome(error))
            return None

    def _names(self, path: str) -> Optional[List[str]]:
        try:
            return self.tree.names(self.tree.resolve(path))
        except OSError:
            return None

    def _is_there(self, path: str) -> bool:
        """Whether a file can be read, or is refused: the manifest says why."""
        try:
            self.tree.read(self.tree.resolve(path), 0, self.tree.owner(path))
        except NotTheirs:
            return True
        except (OSError, ValueError):
            return False
        return True

    def _content(self, path: str, limit_bytes: int) -> Optional[FileContent]:
        try:
            return self.tree.read(self.tree.resolve(path), limit_bytes)
        except (OSError, ValueError):
            return None

    def _pci(self) -> List[str]:
        if self._cards is None:
            names = self._names("sys/bus/pci/devices") or []
            devices: List[Tuple[str, str]] = [
                (name, self.resolved(f"sys/bus/pci/devices/{name}") or "") for name in names
            ]
            self._cards = relevant(devices, lambda path: self.tree.peek(path, 64))
        return self._cards

    def size(self, path: str) -> int:
        """A file's size in bytes; a large number if it is not known."""
        try:
            return self.tree.status(self.tree.resolve(path)).st_size
        except OSError:
            return 1 << 62
