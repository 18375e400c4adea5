"""Little-endian registers of a device, of which only the first bytes may be known."""

from __future__ import annotations

from msgspec import Struct


class Truncated(Struct, frozen=True):
    """Not in what was read: the device may or may not have it."""

    size_bytes: int  # how much was read; 64 is what users who are not root get


class BeyondRead(Exception):
    """A register lies beyond what was read."""


class Registers:
    """The configuration space as far as it was read."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def _get(self, offset: int, size: int) -> int:
        if offset + size > len(self.data):
            raise BeyondRead(offset)
        return int.from_bytes(self.data[offset : offset + size], "little")

    def u8(self, offset: int) -> int:
        return self._get(offset, 1)

    def u16(self, offset: int) -> int:
        return self._get(offset, 2)

    def u32(self, offset: int) -> int:
        return self._get(offset, 4)
