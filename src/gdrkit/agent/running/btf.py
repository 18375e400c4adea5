"""Where fields lie in the structures of the running kernel, by BTF, which the kernel has of itself.

Sources: Linux Documentation/bpf/btf.rst; include/uapi/linux/btf.h. The BTF of a module goes on with the
numbers and the strings of the kernel's. A name or field that is absent raises LookupError.
"""

from __future__ import annotations

import struct
from typing import Dict, Iterator, Optional, Tuple

_HEADER = struct.Struct("=HBBIIIII")
_TYPE = struct.Struct("=III")
_MAGIC = 0xEB9F
POINTER, STRUCT, UNION, ENUM, FORWARD = 2, 4, 5, 6, 7
_QUALIFIERS = (8, 9, 10, 11, 18)
"""TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG: what they name is the type."""
_BODY = {
    1: (4, 0), 3: (12, 0), STRUCT: (0, 12), UNION: (0, 12), ENUM: (0, 8), 13: (0, 8), 14: (4, 0),
    15: (0, 12), 17: (4, 0), 19: (0, 12),
}  # fmt: skip
"""Bytes after a type's head: in all, and for each of its members."""
_DEPTH = 16
"""Structures in structures, and qualifiers of qualifiers."""
_NAME_BYTES = 256


class Field:
    """Where a field lies: `offset` in bytes, `bit` in its byte, which is 0 unless it is a bit field."""

    def __init__(self, bits: int) -> None:
        self.offset, self.bit = bits // 8, bits % 8


class Btf:
    """The types of the kernel, or of a module on top of it. Raises ValueError if it is malformed."""

    def __init__(self, data: bytes, base: "Optional[Btf]" = None) -> None:
        if len(data) < _HEADER.size:
            raise ValueError("no BTF")
        magic, _, _, head, type_at, type_size, text_at, text_size = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError("no BTF")
        self._base, self._data = base, data
        self._first: int = base._last if base else 1
        self._text_first: int = base._text_last if base else 0
        self._text = data[head + text_at : head + text_at + text_size]
        self._text_last: int = self._text_first + len(self._text)
        self._at: "list[int]" = []
        self._named: Dict[Tuple[int, int], int] = {}
        place, end = head + type_at, min(len(data), head + type_at + type_size)
        try:
            while place < end:
                name, info, _ = _TYPE.unpack_from(data, place)
                kind = info >> 24 & 31
                if name and kind in (STRUCT, ENUM):
                    self._named.setdefault((kind, name), self._first + len(self._at))
                self._at.append(place)
                fixed, each = _BODY.get(kind, (0, 0))
                place += _TYPE.size + fixed + each * (info & 0xFFFF)
        except struct.error:
            place = end + 1
        if place > end:
            raise ValueError("BTF that is cut off")
        self._last: int = self._first + len(self._at)

    def struct(self, name: str, kind: int = STRUCT) -> int:
        """The number of a structure, of this module or of the kernel."""
        for place in self._places(name):
            if (kind, place) in self._named:
                return self._named[kind, place]
        if self._base is None:
            raise LookupError("no type %s" % name)
        return self._base.struct(name, kind)

    def size(self, number: int) -> int:
        return self._type(number)[3]

    def field(self, name: str, path: str) -> Field:
        """A field such as `ops.owner` of a structure."""
        number, total = self.struct(name), 0
        for part in path.split("."):
            for member, what, offset in self.members(number):
                if member == part:
                    total += offset
                    number = self.plain(what)[1]
                    break
            else:
                raise LookupError("no %s in %s" % (path, name))
        return Field(total)

    def value(self, name: str, of: str) -> int:
        """A value of an enumeration."""
        number = self.struct(name, ENUM)
        owner, at = self._place(number)
        for index in range(self._type(number)[2]):
            text, found = struct.unpack_from("=II", owner._data, at + _TYPE.size + 8 * index)
            if self._string(text) == of:
                return int(found)
        raise LookupError("no %s in %s" % (of, name))

    def structures(self) -> Iterator[int]:
        """The structures with a name, without those of the kernel if this is a module."""
        return (number for (kind, _), number in self._named.items() if kind == STRUCT)

    def members(self, number: int, depth: int = 0) -> Iterator[Tuple[str, int, int]]:
        """Name, type and offset in bits of each member; those of members without a name among them."""
        _, _, count, _, flag = self._type(number)
        owner, at = self._place(number)
        for index in range(count):
            name, what, offset = _TYPE.unpack_from(owner._data, at + _TYPE.size + 12 * index)
            offset = offset & 0xFFFFFF if flag else offset
            kind, inner = self.plain(what)
            if not name and kind in (STRUCT, UNION) and depth < _DEPTH:
                for member, of, more in self.members(inner, depth + 1):
                    yield member, of, offset + more
            else:
                yield self._string(name), what, offset

    def plain(self, number: int) -> Tuple[int, int]:
        """Kind and number of a type without typedefs and qualifiers; 0, 0 for void."""
        for _ in range(_DEPTH):
            if not number:
                break
            kind, _, _, target, _ = self._type(number)
            if kind not in _QUALIFIERS:
                return kind, number
            number = target
        return 0, 0

    def target(self, number: int) -> Tuple[int, int]:
        """Kind and number of what a pointer points to."""
        return self.plain(self._type(number)[3])

    def name(self, number: int) -> str:
        return self._string(self._type(number)[1]) if number else ""

    def _type(self, number: int) -> Tuple[int, int, int, int, bool]:
        """Kind, name, count of members, size or target, and whether members have sizes in bits."""
        owner, at = self._place(number)
        name, info, size = _TYPE.unpack_from(owner._data, at)
        return info >> 24 & 31, name, info & 0xFFFF, size, bool(info >> 31)

    def _place(self, number: int) -> "Tuple[Btf, int]":
        if self._base is not None and number < self._first:
            return self._base._place(number)
        if not self._first <= number < self._last:
            raise LookupError("no type of the number %d" % number)
        return self, self._at[number - self._first]

    def _string(self, offset: int) -> str:
        if self._base is not None and offset < self._text_first:
            return self._base._string(offset)
        start = offset - self._text_first
        return self._text[start : start + _NAME_BYTES].split(b"\0", 1)[0].decode("ascii", "replace")

    def _places(self, name: str) -> Iterator[int]:
        """Where a string is: a module refers to those of the kernel where it can."""
        wanted = b"\0" + name.encode() + b"\0"
        at = self._text.find(wanted)
        while at >= 0:
            yield self._text_first + at + 1
            at = self._text.find(wanted, at + 1)
        if self._base is not None:
            yield from self._base._places(name)
