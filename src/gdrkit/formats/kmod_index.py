"""kmod's index files, such as modules.dep.bin: a trie of keys, each with values in order of priority.

Source: kmod libkmod/libkmod-index.c, "Disk format", index_mm_open(), index_mm_search_node() and
index_mm_searchwild_node(). Why not a library: none reads this format but libkmod, which reads only the files
of the machine it runs on.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable
from fnmatch import fnmatchcase

from msgspec import Struct

from gdrkit.formats.errors import FormatError

MAGIC, MAJOR = 0xB007F457, 2
HEADER = struct.Struct(">III")  # magic, version (the major one in its upper half), offset of the root
LEFT_OUT = 0x0FFFFFFF
"""In an index of a bundle, the offset of a node that was not collected: agent/collect/index_reduce.py."""
_PREFIX, _VALUES, _CHILDREN, _OFFSET = 0x80000000, 0x40000000, 0x20000000, 0x0FFFFFFF
_PAGE_BYTES = 4096  # kmod maps the file: up to the end of the last page, what lies behind it reads as zeros
_DEPTH_LIMIT = 4096  # characters of a key: PATH_MAX
_NODES_LIMIT = 100_000  # of one search for patterns; a distribution's modules.alias.bin has about 40,000
_WILDCARDS = b"*?["


class NotCollected(FormatError):
    """The answer lies in a part of the index that was not collected."""


def is_ignored(data: bytes) -> bool:
    """Whether kmod treats the file like one that is not there, without a message: it has no whole header."""
    return len(data) < HEADER.size


def complaint(data: bytes) -> str:
    """What kmod says of a file that is another kind of index; "" if it is none."""
    magic, version, _ = HEADER.unpack_from(data)
    if magic != MAGIC:
        return f"magic check fail: {magic:x} instead of {MAGIC:x}"
    if version >> 16 != MAJOR:
        return f"major version check fail: {version >> 16} instead of {MAJOR}"
    return ""


class Index:
    """An index, read as kmod reads it.

    `bounded`, asked where an offset is behind the last page: whether that is a key that is not there, as in
    kmod 34. Earlier versions read what lies there. Raises FormatError for what is not an index, and where
    that is not known.
    """

    def __init__(self, data: bytes, *, bounded: Callable[[], bool] = lambda: False) -> None:
        if is_ignored(data) or complaint(data):
            raise FormatError("not an index of kmod")
        self._root = HEADER.unpack_from(data)[2]
        self._bounded = bounded
        self._data = data + bytes(-len(data) % _PAGE_BYTES)
        self._left = 0

    def search(self, key: str) -> str | None:
        """The first value of a key; None if the index has no such key."""
        self._left = _NODES_LIMIT
        rest = key.encode("utf-8", "replace")[:_DEPTH_LIMIT]
        node = self._node(self._root)
        while node is not None and rest.startswith(node.prefix):
            rest = rest[len(node.prefix) :]
            if not rest:
                return node.values[0][1].decode("utf-8", "replace") if node.values else None
            node, rest = self._child(node, rest[0]), rest[1:]
        return None

    def matches(self, key: str) -> tuple[str, ...]:
        """The values of all keys that are patterns for a name, best first."""
        self._left = _NODES_LIMIT
        found: list[tuple[int, str]] = []
        rest, before = key.encode("utf-8", "replace")[:_DEPTH_LIMIT], b""
        node = self._node(self._root)
        while node is not None:
            at = next((at for at, letter in enumerate(node.prefix) if letter in _WILDCARDS), -1)
            if at >= 0:
                if rest.startswith(node.prefix[:at]):
                    self._patterns(node, before, before + rest, found)
                break
            if not rest.startswith(node.prefix):
                break
            before, rest = before + node.prefix, rest[len(node.prefix) :]
            for letter in _WILDCARDS:
                child = self._child(node, letter)
                if child is not None:
                    self._patterns(child, before + bytes([letter]), before + rest, found)
            if not rest:
                _add(found, node.values)
                break
            node, before, rest = self._child(node, rest[0]), before + rest[:1], rest[1:]
        return tuple(value for _, value in found)

    def _patterns(self, node: _Node, before: bytes, name: bytes, found: list[tuple[int, str]]) -> None:
        """Add the values of a node and of all below it whose keys are patterns for a name."""
        pending = [(node, before)]
        while pending:
            node, before = pending.pop()
            before += node.prefix
            # The children come first, in order of their letters; values are added from the end of this list.
            letters = range(node.first, node.first + len(node.children))
            below = [(child, before + bytes([at])) for at in letters if (child := self._child(node, at))]
            if below and node.values:
                pending.append((_Node(b"", node.first, (), node.values), before))
            elif node.values and fnmatchcase(name.decode("latin-1"), before.decode("latin-1")):
                _add(found, node.values)
            pending += reversed(below)

    def _child(self, node: _Node, letter: int) -> _Node | None:
        if not node.first <= letter < node.first + len(node.children):
            return None
        return self._node(node.children[letter - node.first])

    def _node(self, offset: int) -> _Node | None:
        """The node at an offset; None if there is none."""
        at = offset & _OFFSET
        if at == LEFT_OUT:
            raise NotCollected("a part of the index that was not collected")
        if not at or (at >= len(self._data) and self._bounded()):
            return None
        self._left -= 1
        if self._left < 0:
            raise FormatError("more patterns than any index has")
        reader = _Reader(self._data, at)
        prefix = reader.text() if offset & _PREFIX else b""
        first, children = reader.children() if offset & _CHILDREN else (0, ())
        count = reader.number() if offset & _VALUES else 0
        values = tuple((reader.number(), reader.text()) for _ in range(count))
        return _Node(prefix, first, children, values)


def _add(found: list[tuple[int, str]], values: tuple[tuple[int, bytes], ...]) -> None:
    """Insert values by priority, before those of the same one: add_value()."""
    for priority, value in values:
        at = bisect_left(found, priority, key=lambda row: row[0])
        found.insert(at, (priority, value.decode("utf-8", "replace")))


class _Node(Struct, frozen=True):
    """A node of the trie."""

    prefix: bytes
    first: int  # the letter of the first child
    children: tuple[int, ...]
    values: tuple[tuple[int, bytes], ...]


class _Reader:
    """Reads a node's fields one after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

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

    def children(self) -> tuple[int, tuple[int, ...]]:
        """The first letter of the table of children, and their offsets."""
        first, last = self.take(2)
        table = self.take(4 * max(0, last - first + 1))
        return first, tuple(child for (child,) in struct.iter_unpack(">I", table))
