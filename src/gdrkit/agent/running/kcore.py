"""The memory of the running kernel, to read: /proc/kcore, an ELF file. Root only.

Source: Linux fs/proc/kcore.c. It is forbidden where the kernel is locked down to confidentiality, and a try
would be a line in its log. What is read may change meanwhile: nothing is locked.
"""

from __future__ import annotations

import bisect
import os
import struct
from typing import List, Tuple

from .btf import Field

PATH = "/proc/kcore"
_LOAD = 1
_PARTS = 4096
READS = 1 << 17
"""Most reads, of some microseconds each. 8 processes with a thousand regions need ten for each region."""


class Kcore:
    """Open kernel memory; close it. Raises OSError, or LookupError for memory that is not there."""

    def __init__(self, path: str = PATH) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._left = READS
        try:
            self._parts = self._segments()
        except BaseException:
            self.close()
            raise
        self._starts = [part[0] for part in self._parts]

    def close(self) -> None:
        os.close(self._descriptor)

    def _segments(self) -> List[Tuple[int, int, int]]:
        """Address, size and place in the file of each loaded segment: elf(5)."""
        head = self._bytes(0, 64)
        if head[:5] != b"\x7fELF\x02":
            raise LookupError("not an ELF file of 64 bits")
        (table,) = struct.unpack_from("=Q", head, 32)
        size, count = struct.unpack_from("=HH", head, 54)
        found = []
        for index in range(min(count, _PARTS)):
            row = self._bytes(table + index * size, max(size, 48))
            kind, _, offset, address, _, length = struct.unpack_from("=IIQQQQ", row)
            if kind == _LOAD:
                found.append((address, length, offset))
        return sorted(found)

    def read(self, address: int, length: int) -> bytes:
        index = bisect.bisect_right(self._starts, address) - 1
        self._left -= 1
        if index < 0 or self._left < 0:
            raise LookupError("too many reads" if self._left < 0 else "0x%x is not mapped" % address)
        start, size, offset = self._parts[index]
        if address + length > start + size:
            raise LookupError("0x%x is not mapped" % address)
        return self._bytes(offset + address - start, length)

    def _bytes(self, offset: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, offset)
        except OverflowError:
            data = b""
        if len(data) != length:
            raise LookupError("%d bytes at %d cannot be read" % (length, offset))
        return data

    def pointer(self, address: int) -> int:
        return int(struct.unpack("=Q", self.read(address, 8))[0])

    def number(self, address: int) -> int:
        """Of 32 bits."""
        return int(struct.unpack("=I", self.read(address, 4))[0])

    def bit(self, address: int, field: Field) -> bool:
        return bool(self.read(address + field.offset, 1)[0] >> field.bit & 1)

    def text(self, address: int, length: int = 64) -> str:
        """A string with an end. Near the end of mapped memory it may be shorter than `length`."""
        for size in (length, 16, 1):
            try:
                return self.read(address, size).split(b"\0", 1)[0].decode("utf-8", "replace")
            except LookupError:
                continue
        raise LookupError("0x%x is not mapped" % address)
