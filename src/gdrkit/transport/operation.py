"""Work that is under way: on a GPU's streams, or in a thread."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import PeerLost, TransportError

SPIN_SECONDS = 0.002
_sched_yield = ctypes.CDLL(None).sched_yield
_SHORTEST, _LONGEST, _SHARE = 50e-6, 1e-3, 0.01


def pause(waited: float, spin_seconds: float = SPIN_SECONDS) -> float:
    """How many seconds to sleep before the next look at what was waited for so long; 0 is not at all.

    Short messages are over before a sleep would be. What takes longer is noticed within a hundredth of its
    time, or a millisecond; to look more often takes the processor from whoever moves the bytes, which in a
    software device is the kernel.
    """
    return 0.0 if waited < spin_seconds else min(_LONGEST, max(_SHORTEST, _SHARE * waited))


def rest(waited: float, spin_seconds: float = SPIN_SECONDS) -> None:
    """Sleep as long as `pause` says. Where it says not at all, let other threads have their turn.

    time.sleep(0) would last 50 us and more: the timer slack of every thread (prctl(2), PR_SET_TIMERSLACK).
    """
    if seconds := pause(waited, spin_seconds):
        time.sleep(seconds)
    else:
        _sched_yield()  # through ctypes, which gives up the interpreter's lock meanwhile


def until(condition: Callable[[], bool], gone: Callable[[], bool] = lambda: False) -> None:
    """Wait for a condition. Raises PeerLost if `gone` is true meanwhile."""
    begun = time.monotonic()
    while not condition():
        if gone():
            raise PeerLost("the other process is gone")
        rest(time.monotonic() - begun)


class Operation(Protocol):
    """One message on its way in or out."""

    def progressing(self) -> AbstractContextManager[None]:
        """What a thread is in while it does nothing but wait for this message."""
        return nullcontext()

    def rest(self, waited: float) -> None:
        """Pass some time between two looks, `waited` seconds after the first."""

    def done(self) -> bool:
        """Whether the buffer may be used again. Raises what went wrong."""

    def expected_crc32(self) -> int | None:
        """After `done`: the CRC-32 that the sender announced for what was received, None where it gave
        none.
        """


class Channel(Protocol):
    """One path between two processes, both ways, messages in order."""

    name: str

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        """Begin to send it, in its place on a stream (a CUstream as an int), or at once."""

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        """Begin to receive a message of exactly its size."""

    def abandon(self) -> None:
        """End all waiting: the peer is gone. What is under way comes to an end, with any bytes."""

    def close(self) -> None:
        """Give everything back. Nothing is under way."""


class ConnectionState(Protocol):
    """What a transfer asks of the connection that it is part of."""

    @property
    def broken(self) -> TransportError | None:
        """Why this connection cannot be used any more, or None."""

    @property
    def peer_closed_at(self) -> float | None:
        """When (time.monotonic) the other side closed in good order, or None."""

    def break_(self, error: TransportError) -> None:
        """Make the connection unusable, and end all waiting, here and on the GPU."""


class ThreadedOperation(Operation):
    """An operation that a thread carries out; its result is the announced CRC-32, or None."""

    def __init__(self, future: Future[int | None]) -> None:
        self._future = future

    def rest(self, waited: float) -> None:
        # No looking again and again: that would take the interpreter's lock from the thread. But no long
        # sleep either, from which a processor of a virtual machine takes 100 us to wake.
        wait((self._future,), pause(waited, 0.0))

    def done(self) -> bool:
        if not self._future.done():
            return False
        self._future.result()
        return True

    def expected_crc32(self) -> int | None:
        return self._future.result()
