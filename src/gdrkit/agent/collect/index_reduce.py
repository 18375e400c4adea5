"""Reduce an index of kmod, such as modules.alias.bin, to the keys that matter.

The result has the size of the original and each node at its place; nodes that were left out are zeros, and
the nodes that lead to them say so. Source: kmod libkmod/libkmod-index.c, "Disk format".
"""

from __future__ import annotations

import struct
from typing import Callable, List, Optional, Tuple

LEFT_OUT = 0x0FFFFFFF
"""The offset of a node that was left out: behind the end of any index."""
_MAGIC, _MAJOR = 0xB007F457, 2
_HEADER = struct.Struct(">III")
_NUMBER = struct.Struct(">I")
_PREFIX, _VALUES, _CHILDREN, _OFFSET = 0x80000000, 0x40000000, 0x20000000, 0x0FFFFFFF
_DEPTH_LIMIT = 500

Wanted = Callable[[bytes, List[bytes]], bool]


def reduce(data: bytes, wanted: Wanted) -> Optional[bytes]:
    """The index with the keys for which `wanted` is true of the key and its values; None if it cannot be
    read."""
    try:
        magic, version, root = _HEADER.unpack_from(data)
        if magic != _MAGIC or version >> 16 != _MAJOR:
            return None
        reduction = _Reduction(data, wanted)
        reduction.visit(root, b"", 0)
    except (struct.error, ValueError):
        return None
    return bytes(reduction.out)


class _Reduction:
    """Copies the wanted nodes of an index into zeros."""

    def __init__(self, data: bytes, wanted: Wanted) -> None:
        self.data, self.wanted = data, wanted
        self.out = bytearray(data[: _HEADER.size]) + bytes(len(data) - _HEADER.size)
        self.left = len(data)  # nodes that overlap are hostile

    def visit(self, offset: int, key: bytes, depth: int) -> bool:
        """Copy a node and those below it; False if no key of theirs is wanted. Raises ValueError for a node
        outside the index."""
        start = at = offset & _OFFSET
        if not start or depth > _DEPTH_LIMIT:
            raise ValueError
        if offset & _PREFIX:
            prefix, at = self._text(at)
            key += prefix
        first, table, count = 0, at, 0
        if offset & _CHILDREN:
            first, last = self.data[at : at + 2]
            table, count = at + 2, max(0, last - first + 1)
            at = table + 4 * count
        values: List[bytes] = []
        if offset & _VALUES:
            (number,) = _NUMBER.unpack_from(self.data, at)
            at += 4
            for _ in range(number):
                value, at = self._text(at + 4)  # behind its priority
                values.append(value)
        self.left -= at - start
        if at > len(self.data) or self.left < 0:
            raise ValueError
        children = [child for (child,) in _NUMBER.iter_unpack(self.data[table : table + 4 * count])]
        kept = [
            bool(child & _OFFSET) and self.visit(child, key + bytes([first + index]), depth + 1)
            for index, child in enumerate(children)
        ]
        if depth and not any(kept) and not (values and self.wanted(key, values)):
            return False
        self.out[start:at] = self.data[start:at]
        for index, child in enumerate(children):
            if child & _OFFSET and not kept[index]:
                _NUMBER.pack_into(self.out, table + 4 * index, LEFT_OUT)
        return True

    def _text(self, at: int) -> Tuple[bytes, int]:
        """A string, and what follows it. Raises ValueError if it does not end."""
        end = self.data.index(0, at)
        return self.data[at:end], end + 1
