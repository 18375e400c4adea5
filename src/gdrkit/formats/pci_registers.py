"""Little-endian registers of a device; perhaps only the first bytes are known."""

from __future__ import annotations

from msgspec import Struct


class Truncated(Struct, frozen=True):
    """Beyond the bytes that were read, so that it is not known whether the device has it."""

    size_bytes: int  # number of bytes read; 64 for users other than root


class BeyondRead(Exception):
    """A register is beyond the bytes that were read."""


class Registers:
    """The bytes of the configuration space that were read."""

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
