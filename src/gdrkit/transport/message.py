"""A message between two processes of a machine: its slot in shared memory shows both how far it is."""

from __future__ import annotations

from abc import abstractmethod

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import TransportError
from gdrkit.transport.operation import Operation, back_off
from gdrkit.transport.ring import SLOTS, WRAP, Ring

WAIT_SPIN_SECONDS = 0.02
"""While nothing moves; the copies need no CPU time, so spinning takes none from them."""
WORD_READS = 40
"""Reads of the words alone before the CPU is yielded and everything else is checked. That takes as long
as several reads, and delays the detection of a change by as much.
"""


class Message(Operation):
    """The message of that number in its direction. Words of its slot have the value `word` once they apply
    to it.
    """

    def __init__(self, ring: Ring, number: int, what: Buffer, crc32: int | None) -> None:
        self.ring, self.number, self.what, self.crc32 = ring, number, what, crc32
        self.slot, self.word = ring.slots[number % SLOTS], (number + 1) % WRAP
        self._quiet_since = 0.0  # since when nothing has moved

    def announce(self, *, copied: bool = False) -> None:
        """Tell the receiver size and CRC-32."""
        slot = self.slot
        slot.size_bytes, slot.copied = self.what.size_bytes, copied
        slot.crc32, slot.checked = self.crc32 or 0, self.crc32 is not None
        self.ring.barrier()
        slot.announced = self.word

    def accept(self) -> bool:
        """Whether the sender has announced it. Raises TransportError if it announced another size."""
        slot, size = self.slot, self.what.size_bytes
        if slot.announced != self.word:
            return False
        if slot.size_bytes != size:
            raise TransportError(f"message of {slot.size_bytes} bytes received where {size} were expected")
        self.crc32 = slot.crc32 if slot.checked else None
        return True

    def finish(self) -> None:
        """Give the slot back to the sender, with the bytes in place."""
        self.slot.arrived = self.word

    @abstractmethod
    def has_news(self) -> bool:
        """Whether something may have moved since the last call. Needs no lock."""

    def back_off(self, waited: float) -> None:
        for _ in range(WORD_READS):
            if self.has_news():
                self._quiet_since = waited
                return
        back_off(waited - self._quiet_since, WAIT_SPIN_SECONDS)

    def expected_crc32(self) -> int | None:
        return self.crc32
