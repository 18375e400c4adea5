"""Operations in flight, on a GPU's streams or in a thread, and how to wait for them."""

from __future__ import annotations

import ctypes
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import TransportError

SPIN_SECONDS = 0.002
yield_cpu = ctypes.CDLL(None).sched_yield
"""Through ctypes, which releases the GIL during the call."""
_SHORTEST, _LONGEST, _SHARE = 50e-6, 1e-3, 0.01


def pause(waited: float, spin_seconds: float = SPIN_SECONDS) -> float:
    """Seconds to sleep before the next check, after having waited `waited` seconds; 0 means do not sleep.

    A short message is done before a sleep would end. The end of a longer one is seen within a hundredth of
    its time, or a millisecond. More frequent checks would take the CPU from the thread that moves the bytes,
    which with a software device is the kernel's.
    """
    return 0.0 if waited < spin_seconds else min(_LONGEST, max(_SHORTEST, _SHARE * waited))


def back_off(waited: float, spin_seconds: float = SPIN_SECONDS) -> None:
    """Sleep for the time that `pause` returns; if that is 0, yield to other threads.

    time.sleep(0) would take 50 us and more: the timer slack of every thread (prctl(2), PR_SET_TIMERSLACK).
    """
    if seconds := pause(waited, spin_seconds):
        time.sleep(seconds)
    else:
        yield_cpu()


class Operation(Protocol):
    """One message that is being sent or received."""

    def progressing(self) -> AbstractContextManager[None]:
        """A context for a thread that only waits for this message."""
        return nullcontext()

    def back_off(self, waited: float) -> None:
        """Let some time pass between two checks, `waited` seconds after the first."""
        back_off(waited)

    def done(self) -> bool:
        """Whether the buffer may be used again. Raises the operation's error if it failed."""

    def expected_crc32(self) -> int | None:
        """After `done`: the CRC-32 that the sender announced for a received message, or None."""
        return None


class Direction(Protocol):
    """One direction of a channel, on one side."""

    def prepare(self, device: int) -> None:
        """Allocate what memory of a device needs, once."""

    def release(self) -> None:
        """End all waits; does not wait itself."""

    def close(self) -> None:
        """Free everything."""


class Channel(ABC):
    """A bidirectional channel on one path between two processes. Messages stay in order."""

    def __init__(self, directions: Sequence[Direction]) -> None:
        self._directions, self.prepared = directions, set[int]()

    @abstractmethod
    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        """Start sending it, in the order of a stream (a CUstream as an int), or at once."""

    @abstractmethod
    def receive(self, into: Buffer, stream: int | None) -> Operation:
        """Start receiving a message of exactly its size."""

    def prepare(self, device: int | None) -> None:
        """Allocate what memory of a device needs. For all directions together: pinning memory may block on a
        stream that waits for another direction.
        """
        if device is not None and device not in self.prepared:
            for direction in self._directions:
                direction.prepare(device)
            self.prepared.add(device)

    def abandon(self) -> None:
        """End all waits, since the peer is gone. Operations in flight end; their bytes are undefined."""
        for direction in self._directions:
            direction.release()

    def close(self) -> None:
        """Release all resources. Nothing may be in flight."""
        for direction in self._directions:
            direction.close()


class ConnectionState(Protocol):
    """What a transfer needs from its connection."""

    @property
    def broken(self) -> TransportError | None:
        """Why this connection cannot be used any more, or None."""

    @property
    def peer_closed_at(self) -> float | None:
        """When (time.monotonic) the other side closed in good order, or None."""

    def break_(self, error: TransportError) -> None:
        """Make the connection unusable, and end all waits, on the CPU and on the GPU."""
