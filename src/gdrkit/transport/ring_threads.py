"""Threads that copy messages through a ring: host memory, and what no copy engine can move."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import PeerLost
from gdrkit.transport.gpu import Gpu
from gdrkit.transport.operation import ThreadedOperation, until
from gdrkit.transport.ring import WRAP, Ring, reached, units

_THREADS = max(1, min(4, len(os.sched_getaffinity(0)) // 2))
"""Threads of each side that copy host memory: both sides' together use no more than the CPUs."""
_WORTH_THREADS = 4 << 20
_HOST_CHUNK = 1 << 20
"""Bytes of a thread's copy to or from the ring; larger ones leave the CPUs' caches (measured)."""


class RingThreads:
    """One direction of a ring, on one side. Messages are moved one after another."""

    def __init__(self, ring: Ring, sending: bool) -> None:
        self.ring, self.sending, self.gone = ring, sending, False
        self._position = 0  # the end of the queued messages, in the ring's units
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gdrkit-shared")
        self._others = ThreadPoolExecutor(_THREADS, thread_name_prefix="gdrkit-shared")

    def take(self, size_bytes: int) -> int:
        """The unit at which the next message of this size begins."""
        begin = self._position
        self._position += units(size_bytes)
        return begin

    def queue(self, what: Buffer, gpu: Gpu | None) -> ThreadedOperation:
        """Let the thread move memory that is ready; `gpu` copies GPU memory."""
        begin, step = self.take(what.size_bytes), self.ring.step(what.size_bytes, busy=False)
        return ThreadedOperation(self._thread.submit(self.move, what, begin, step, gpu))

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition. Raises PeerLost."""
        until(condition, lambda: self.gone)

    def move(self, what: Buffer, begin: int, step: int, gpu: Gpu | None = None) -> None:
        """Copy a message in chunks of at most `step` bytes. Runs in the thread; others help with a large
        one.
        """
        step, copy = min(step, _HOST_CHUNK), gpu.copy if gpu else ctypes.memmove
        threads = _THREADS if gpu is None and what.size_bytes >= _WORTH_THREADS else 1
        others = [
            self._others.submit(self._move_chunks, what, begin, step, copy, thread, threads)
            for thread in range(1, threads)
        ]
        self._move_chunks(what, begin, step, copy, 0, threads)
        for other in others:
            other.result()
        if self.gone:
            raise PeerLost("the other process is gone")

    def _move_chunks(
        self,
        what: Buffer,
        begin: int,
        step: int,
        copy: Callable[[int, int, int], object],
        thread: int,
        threads: int,
    ) -> None:
        """Copy the chunks that are a thread's share. They are counted in order."""
        ring = self.ring
        ours, theirs = (ring.produced, ring.consumed) if self.sending else (ring.consumed, ring.produced)
        for index, (end, address, offset, size) in enumerate(ring.pieces(begin, what.size_bytes, step)):
            if index % threads == thread:
                needed = end - ring.units if self.sending else end
                self.until(lambda: reached(theirs[0], needed))  # noqa: B023
                ring.barrier()
                target, source = what.address + offset, address
                copy(*((source, target) if self.sending else (target, source)), size)
                ring.barrier()
                self.until(lambda: ours[0] == (end - units(size)) % WRAP)  # noqa: B023
                ours[0] = end % WRAP

    def release(self) -> None:
        """End all waits."""
        self.gone = True
        self.ring.poison(self._position)

    def close(self) -> None:
        """End the threads, then unmap the ring."""
        self.gone = True
        self._thread.shutdown(wait=True)
        self._others.shutdown(wait=True)
        self.ring.close()
