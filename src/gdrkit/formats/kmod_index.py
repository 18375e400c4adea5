"""kmod's index files, such as modules.dep.bin: a trie of keys, each with values in order of priority.

Source: kmod libkmod/libkmod-index.c, "Disk format", index_mm_open() and index_mm_search_node().
Why not a library: none reads this format but libkmod, which reads only the files of the machine it runs on.
"""

from __future__ import annotations

import struct

from gdrkit.formats.errors import FormatError

MAGIC, MAJOR = 0xB007F457, 2
HEADER = struct.Struct(">III")  # magic, version (the major one in its upper half), offset of the root
_PREFIX, _VALUES, _CHILDREN, _OFFSET = 0x80000000, 0x40000000, 0x20000000, 0x0FFFFFFF
_PAGE_BYTES = 4096  # kmod maps the file: up to the end of the last page, what lies behind it reads as zeros
_DEPTH_LIMIT = 4096  # characters of a key: PATH_MAX


def is_ignored(data: bytes) -> bool:
    """Whether kmod treats the file like one that is not there, without a message: it has no whole header."""
    return len(data) < HEADER.size


def search(data: bytes, key: str) -> str | None:
    """The first value of a key; None if the index has no such key.

    Raises FormatError for what is not an index, and where kmod would read behind the file's last page.
    """
    if is_ignored(data):
        return None
    magic, version, offset = HEADER.unpack_from(data)
    if magic != MAGIC or version >> 16 != MAJOR:
        raise FormatError("not an index of kmod")
    reader = _Reader(data + bytes(-len(data) % _PAGE_BYTES))
    rest = key.encode("utf-8", "replace")[:_DEPTH_LIMIT]
    while offset & _OFFSET:
        reader.at = offset & _OFFSET
        prefix = reader.text() if offset & _PREFIX else b""
        if not rest.startswith(prefix):
            return None
        rest = rest[len(prefix) :]
        children = reader.children(rest[0] if rest else -1) if offset & _CHILDREN else 0
        if not rest:
            if not offset & _VALUES or not reader.number():
                return None
            reader.number()  # the priority
            return reader.text().decode("utf-8", "replace")
        offset, rest = children, rest[1:]
    return None


class _Reader:
    """Reads a node's fields one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        if len(found) < count:
            raise FormatError("an offset behind the end of the index")
        self.at += count
        return found

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> bytes:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise FormatError("a string without an end in the index")
        found = self.data[self.at : end]
        self.at = end + 1
        return found

    def children(self, letter: int) -> int:
        """Skip the table of children; returns the offset of the one for a letter, 0 if there is none."""
        first, last = self.take(2)
        table = self.take(4 * max(0, last - first + 1))
        if not first <= letter <= last:
            return 0
        return int.from_bytes(table[4 * (letter - first) : 4 * (letter - first) + 4], "big")
