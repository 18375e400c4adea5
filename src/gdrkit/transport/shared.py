"""The path `shared`, within a node: each GPU copies to or from pinned memory that both processes map.

The sender's stream waits for space in a ring and copies a chunk into it; then the producer's counter is
updated. The receiver's stream waits for that, copies the chunk out, and the consumer's counter is updated.
Host memory uses the same rings; a thread copies it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import PeerLost, TransportError
from gdrkit.transport.gpu import Gpu
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.operation import Operation, ThreadedOperation, back_off, until
from gdrkit.transport.ring import DESCRIPTORS, WRAP, Barrier, Ring, reached, units

if TYPE_CHECKING:
    from gdrkit.transport.engine import Engine

WAIT_SPIN_SECONDS = (
    0.02  # while nothing moves; the copies need no CPU time, so spinning takes none from them
)
_FAILURE_POLLS = 256  # calls of `done` between checks for a GPU failure
WORD_READS = 40
"""Reads of the words alone before the CPU is yielded and everything else is checked. That takes as long
as several reads, and delays the detection of a change by as much.
"""
_THREADS = max(1, min(4, len(os.sched_getaffinity(0)) // 2))
"""Threads of each side that copy host memory: both sides' together use no more than the CPUs."""
_WORTH_THREADS = 4 << 20
_HOST_CHUNK = 1 << 20
"""Bytes of a thread's copy to or from the ring; larger ones leave the CPUs' caches (measured)."""
_RENEW_UNITS = WRAP // 4  # an older acknowledgement would appear to be ahead, since counters wrap around


class SharedChannel:
    """Messages through two rings, one for each direction.

    `threaded`: the thread copies GPU memory too, and no stream waits for a word or writes one.
    """

    name = "shared"

    def __init__(self, out: Ring, into: Ring, *, threaded: bool = False) -> None:
        self._out = _Half(out, sending=True, threaded=threaded)
        self._into = _Half(into, sending=False, threaded=threaded)

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        self.prepare(what.device)
        return self._out.begin(what, stream, crc32)

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        self.prepare(into.device)
        return self._into.begin(into, stream, None)

    def prepare(self, device: int | None) -> None:
        """Pin both rings and create their streams, once for each device; nothing for host memory."""
        # Both directions together: pinning memory may block on a stream that waits for the other direction.
        if device is not None:
            self._out.prepare(device)
            self._into.prepare(device)

    def abandon(self) -> None:
        self._out.abandon()
        self._into.abandon()

    def close(self) -> None:
        self._out.close()
        self._into.close()


class _Half:
    """One direction, on one side. Chunks are numbered when they are queued, so the two kinds of movers (a
    GPU's streams, a thread) must not work at the same time: a change of kind waits for the messages in
    flight.
    """

    def __init__(self, ring: Ring, *, sending: bool, threaded: bool) -> None:
        self.ring, self.sending, self._threaded = ring, sending, threaded
        self.gone = False
        self._position = 0  # the end of the queued messages, in the ring's units
        self._messages = 0
        self._taken, self._taken_early, self._taking = 0, set[int](), threading.Lock()
        self._renewed = 0  # our position when we last renewed the acknowledgement
        self._mover: int | None = None  # a CUDA ordinal; None is the thread
        self._last: Operation | None = None
        self._gpus: dict[int, Engine] = {}
        self._copiers: dict[int, Gpu] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gdrkit-shared")
        self._others = ThreadPoolExecutor(_THREADS, thread_name_prefix="gdrkit-shared")
        self._barrier = Barrier()

    def begin(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        """Queue a message. A sender waits here until the receiver has taken the 64th message before it."""
        if self.gone:
            raise PeerLost("the connection is broken")
        mover = None if self._threaded else what.device
        if self._mover != mover and (last := self._last) is not None:
            self._until(lambda: last.done())
        self._mover = mover
        ring, number = self.ring, self._messages
        self._messages = (number + 1) % WRAP
        if self.sending and not reached(ring.header.taken[0], number - DESCRIPTORS + 1):
            self._until(lambda: reached(ring.header.taken[0], number - DESCRIPTORS + 1))
        begin, self._position = self._position, self._position + units(what.size_bytes)
        idle = self._through == begin % WRAP
        step = ring.step(what.size_bytes, busy=not idle)
        if mover is None:
            step = min(step, _HOST_CHUNK)
        if mover is None:
            moved = self._thread.submit(self._move_on_host, number, what, begin, step)
            operation: Operation = ThreadedOperation(moved)
        else:
            gpu = self._gpus[mover]
            with gpu.driver.on(mover):
                gpu.move(what, begin, step, stream, idle=idle)
            operation = _OnGpu(self, number, what.size_bytes, self._position, gpu)
        if self.sending:  # after the copies are started: the receiver needs it only when they have arrived
            self._announce(number, what.size_bytes, crc32)
        self._last = operation
        return operation

    def _announce(self, number: int, size_bytes: int, crc32: int | None) -> None:
        header = self.ring.header
        row = header.descriptors[number % DESCRIPTORS]
        row.size_bytes, row.crc32, row.checked = size_bytes, crc32 or 0, crc32 is not None
        self._barrier()
        header.announced[0] = (number + 1) % WRAP
        if self._position - self._renewed >= _RENEW_UNITS:
            self._renewed = self._position
            self.ring.acknowledge(self.ring.filled)

    def announced(self, number: int, size_bytes: int) -> tuple[bool, int | None]:
        """Whether the message with that number is announced, and its CRC-32 or None. Raises TransportError
        if its size differs.
        """
        header = self.ring.header
        if not reached(header.announced[0], number + 1):
            return False, None
        row = header.descriptors[number % DESCRIPTORS]
        if row.size_bytes != size_bytes and not self.gone:
            raise TransportError(
                f"message of {row.size_bytes} bytes received where {size_bytes} were expected"
            )
        return True, row.crc32 if row.checked else None

    def take(self, number: int) -> None:
        """Free the message's descriptor for the sender, once all messages before it are taken too."""
        with self._taking:
            self._taken_early.add(number)
            while self._taken in self._taken_early:
                self._taken_early.remove(self._taken)
                self._taken = (self._taken + 1) % WRAP
            self.ring.header.taken[0] = self._taken

    def _until(self, condition: Callable[[], bool]) -> None:
        until(condition, lambda: self.gone)

    def _move_on_host(self, number: int, what: Buffer, begin: int, step: int) -> int | None:
        crc = None
        if not self.sending:
            self._until(lambda: self.announced(number, what.size_bytes)[0])
            crc = self.announced(number, what.size_bytes)[1]
        threads = _THREADS if what.device is None and what.size_bytes >= _WORTH_THREADS else 1
        others = [
            self._others.submit(self._move_chunks, what, begin, step, thread, threads)
            for thread in range(1, threads)
        ]
        self._move_chunks(what, begin, step, 0, threads)
        for other in others:
            other.result()
        if self.gone:
            raise PeerLost("the other process is gone")
        if not self.sending:
            self.take(number)
        return crc

    def _move_chunks(self, what: Buffer, begin: int, step: int, thread: int, threads: int) -> None:
        """Copy the chunks that are a thread's share. They are counted in order."""
        ring, copy = self.ring, self._copy_of(what.device)
        ours, theirs = (ring.produced, ring.consumed) if self.sending else (ring.consumed, ring.produced)
        for index, (end, address, offset, size) in enumerate(ring.pieces(begin, what.size_bytes, step)):
            if index % threads == thread:
                needed = end - ring.units if self.sending else end
                self._until(lambda: reached(theirs[0], needed))  # noqa: B023
                self._barrier()
                target, source = what.address + offset, address
                copy(*((source, target) if self.sending else (target, source)), size)
                self._barrier()
                self._until(lambda: ours[0] == (end - units(size)) % WRAP)  # noqa: B023
                ours[0] = end % WRAP

    def _copy_of(self, device: int | None) -> Callable[[int, int, int], object]:
        """How this thread copies a device's memory, or host memory."""
        if device is None:
            return ctypes.memmove
        cuda().use(device)
        return self._copiers[device].copy

    def prepare(self, device: int) -> None:
        """Pin the ring and create the streams, once for each device."""
        if self._threaded:
            if device not in self._copiers:
                self.ring.pin(device)
                with cuda().on(device):
                    self._copiers[device] = Gpu()
        elif device not in self._gpus:
            from gdrkit.transport.ring_consumer import RingConsumer
            from gdrkit.transport.ring_producer import RingProducer

            self.ring.pin(device)
            with cuda().on(device):
                self._gpus[device] = (RingProducer if self.sending else RingConsumer)(self.ring, device)

    @property
    def _through(self) -> int:
        """The unit before which our side has finished, modulo WRAP."""
        count: int = (self.ring.produced if self.sending else self.ring.consumed)[0]
        return count

    def reached(self, position: int) -> bool:
        """Whether our side has finished all chunks before that position."""
        return reached(self._through, position)

    def abandon(self) -> None:
        self.gone = True
        self.ring.poison(self._position)

    def close(self) -> None:
        """End our thread and streams, then unmap the ring. Until they have ended, their wait conditions
        are kept satisfied.
        """
        self.gone = True
        self._thread.shutdown(wait=True)
        self._others.shutdown(wait=True)
        while self._gpus:
            self._gpus.popitem()[1].close(lambda: self.ring.poison(self._position))
        while self._copiers:
            device, gpu = self._copiers.popitem()
            with cuda().on(device):
                gpu.close()
        self._last = None
        self.ring.close()


class _OnGpu(Operation):
    """A message whose copies are queued. The counters show when it is done, without a call into the
    driver.
    """

    def __init__(self, half: _Half, number: int, size_bytes: int, end: int, gpu: Engine) -> None:
        self._half, self._number, self._size, self._end, self._gpu = half, number, size_bytes, end, gpu
        self._crc: int | None = None
        self._announced = half.sending  # the receiver has to check for the announcement
        self._polls = 0
        self._seen, self._quiet_since = (0, 0, 0), 0.0  # the counters, and since when they have not changed
        self._finished = False

    def progressing(self) -> AbstractContextManager[None]:
        return self._gpu.progressing()

    def back_off(self, waited: float) -> None:
        gpu, seen, counters = self._gpu, self._seen, self._half.ring.counters
        for _ in range(WORD_READS):
            gpu.poll()
            if (now := counters()) != seen:
                self._seen, self._quiet_since = now, waited
                if gpu.messages:  # at once: everything waits for the next copy
                    gpu.progress()
                return
        back_off(waited - self._quiet_since, WAIT_SPIN_SECONDS)

    def done(self) -> bool:
        if self._finished:
            return True
        if self._half.gone:
            raise PeerLost("the other process is gone")
        self._polls += 1
        if self._polls % _FAILURE_POLLS == 0:
            self._gpu.raise_failure()
        if self._gpu.messages:
            self._gpu.progress()
        if not self._announced:
            self._announced, self._crc = self._half.announced(self._number, self._size)
        if not (self._announced and self._half.reached(self._end)):
            return False
        self._finished = True
        if not self._half.sending:
            self._half.take(self._number)
        return True

    def expected_crc32(self) -> int | None:
        return self._crc
