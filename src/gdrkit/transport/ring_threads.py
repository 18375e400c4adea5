"""Messages that CPUs copy through a ring: host memory, and what no copy engine can move."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import PeerLost
from gdrkit.transport.gpu import Gpu
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.progress import Progress
from gdrkit.transport.ring import UNIT_BYTES, WRAP, Ring, reached, units
from gdrkit.transport.steps import (
    SteppedOperation,
    StepQueue,
    Steps,
    Wait,
    at_once,
    passed,
    run,
    threads_done,
    until,
)

_THREADS = max(1, min(4, len(os.sched_getaffinity(0)) // 2))
"""Threads of each side that copy host memory: both sides' together use no more than the CPUs."""
_WORTH_THREADS = 4 << 20
_HOST_CHUNK = 1 << 20
"""Bytes of a thread's copy to or from the ring; larger ones leave the CPUs' caches (measured)."""


class RingThreads:
    """One direction of a ring, on one side. Messages are moved one after another."""

    def __init__(self, ring: Ring, sending: bool) -> None:
        self.ring, self.sending, self.gone = ring, sending, False
        self._ours, self._theirs = ring.produced, ring.consumed
        if not sending:
            self._ours, self._theirs = self._theirs, self._ours
        self._position = 0  # the end of the queued messages, in the ring's units
        self._counted = 0  # our counter, as the message that threads move has left it
        self.queue = StepQueue()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="gdrkit-shared")

    def take(self, size_bytes: int) -> int:
        """The unit at which the next message of this size begins, the same on both sides. One unit is
        skipped if a single byte would be left after the end of the ring: Cuda.copy.
        """
        _, most = self.ring.locate(self._position)
        if size_bytes > 1 and (size_bytes - most) % (self.ring.units * UNIT_BYTES) == 1:
            self._position += 1
        begin = self._position
        self._position += units(size_bytes)
        return begin

    def add(self, what: Buffer, gpu: Gpu | None) -> SteppedOperation:
        """Queue a message whose memory is ready; `gpu` copies GPU memory."""
        begin, step = self.take(what.size_bytes), self.ring.step(what.size_bytes, busy=False)
        context = None if what.device is None else cuda().on(what.device)
        return self.queue.put(self.move(what, begin, step, gpu), context)

    def drivers(self) -> list[Progress]:
        """What drives messages."""
        return [self.queue]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition. Raises PeerLost."""
        run(self.wait_for(condition))

    def wait_for(self, condition: Callable[[], bool]) -> Generator[Wait, None, None]:
        """Steps until a condition holds. Raises PeerLost."""
        yield from until(lambda: self.gone or condition())
        if not condition():
            raise PeerLost("the other process is gone")

    def move(self, what: Buffer, begin: int, step: int, gpu: Gpu | None = None) -> Steps:
        """Copy a message in chunks of at most `step` bytes, a large one in threads."""
        step, self._counted = min(step, _HOST_CHUNK), begin % WRAP
        if gpu or what.size_bytes < _WORTH_THREADS:
            yield from self._chunks(what, begin, step, gpu, 0, 1)
        else:
            yield from threads_done(
                [
                    self._threads.submit(run, self._chunks(what, begin, step, None, thread, _THREADS))
                    for thread in range(_THREADS)
                ]
            )
        self._check()
        return None

    def _check(self) -> None:
        """Raise PeerLost if a side has given up."""
        if self.gone or self.ring.given_up:
            raise PeerLost("the other process is gone")

    def _chunks(
        self, what: Buffer, begin: int, step: int, gpu: Gpu | None, thread: int, threads: int
    ) -> Steps:
        """Copy the chunks that are a thread's share. They are counted in order, by a number of our own: the
        other side may have poisoned the counter.
        """
        ring, theirs = self.ring, self._theirs
        for index, (end, address, offset, size) in enumerate(ring.pieces(begin, what.size_bytes, step)):
            if index % threads == thread:
                if index:
                    yield at_once
                needed, before = end - ring.units if self.sending else end, (end - units(size)) % WRAP
                if not reached(theirs[0], needed):
                    yield from self.wait_for(lambda: reached(theirs[0], needed))  # noqa: B023
                self._check()  # after the counter, which we poison ourselves
                ring.barrier()
                pair = what.address + offset, address
                target, source = pair[::-1] if self.sending else pair
                if gpu and self.sending:
                    at, ready = gpu.read(target, source, size)
                    yield from passed(ready)
                    if at != target:
                        ctypes.memmove(target, at, size)
                elif gpu:
                    yield from passed(gpu.copied(target, source, size))
                else:
                    ctypes.memmove(target, source, size)
                ring.barrier()
                if self._counted != before:
                    yield from self.wait_for(lambda: self._counted == before)  # noqa: B023
                self._ours[0] = self._counted = end % WRAP
        return None

    def release(self) -> None:
        """End all waits."""
        self.gone = True
        self.poison()

    def poison(self) -> None:
        """Let no stream of this process keep waiting for the other side."""
        self.ring.poison(self._theirs, self._position)

    def close(self) -> None:
        """End the messages and the threads, then unmap the ring."""
        self.gone = True
        self.queue.abandon()
        self._threads.shutdown(wait=True)
        del self._ours, self._theirs
        self.ring.close()
