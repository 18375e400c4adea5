"""Within a node: each GPU copies to or from pinned memory that both processes map. The path `shared`.

The sender's stream waits for a free slot, copies a chunk into it and counts; the receiver's waits for
the count, copies it out and counts in turn. All of a message is queued at once, and the CPU has no part
in it. Host memory takes the same slots, moved by a thread.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.errors import PeerLost, TransportError
from gdrkit.transport.operation import Operation, Threaded
from gdrkit.transport.ring import DESCRIPTORS, LANES, SLOTS, Barrier, Ring, chunks, reached

_WRAP = 1 << 32


class SharedChannel:
    """Messages through two rings, one for each direction."""

    name = "shared"

    def __init__(self, out: Ring, into: Ring) -> None:
        self._out, self._into = _Half(out, sending=True), _Half(into, sending=False)

    def transmit(self, what: Buffer, stream: int, crc32: int | None) -> Operation:
        self._prepare(what.device)
        return self._out.begin(what, stream, crc32)

    def receive(self, into: Buffer, stream: int) -> Operation:
        self._prepare(into.device)
        return self._into.begin(into, stream, None)

    def _prepare(self, device: int | None) -> None:
        # Both directions at once: to pin memory may wait for a stream that waits for the other direction.
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
    """One direction, seen from one side. Chunks are numbered when they are queued, so the two kinds of
    movers (a GPU's streams, a thread) may not be at work at once: a change of kind waits for what is
    under way.
    """

    def __init__(self, ring: Ring, *, sending: bool) -> None:
        self._ring, self._sending = ring, sending
        self._positions = [0] * LANES
        self._messages = 0
        self._mover: int | None = None  # a device; None is the thread
        self._last: Operation | None = None
        self._streams: dict[int, list[int]] = {}
        self._spare_events: list[int] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gdrkit-shared")
        self._gone = threading.Event()
        self._barrier = Barrier()

    def begin(self, what: Buffer, stream: int, crc32: int | None) -> Operation:
        """Queue a message. A sender waits here while the receiver has not taken the 64th message before
        it.
        """
        if self._gone.is_set():
            raise PeerLost("the connection is broken")
        if self._mover != what.device and (last := self._last) is not None:
            self._until(lambda: last.done())
        self._mover = what.device
        number = self._messages
        self._messages = (number + 1) % _WRAP
        if self._sending:
            self._announce(number, what.size_bytes, crc32)
        plan = self._plan(what)
        if what.device is None:
            operation: Operation = Threaded(self._thread.submit(self._move_on_host, number, what, plan))
        else:
            operation = self._move_on_gpu(number, what, plan, stream)
        self._last = operation
        return operation

    def _plan(self, what: Buffer) -> list[tuple[int, int, int, int]]:
        """(lane, position in the lane, offset, bytes) of each chunk."""
        plan = []
        for index, (offset, size) in enumerate(chunks(what.size_bytes, self._ring.slot_bytes)):
            lane = index % LANES
            plan.append((lane, self._positions[lane], offset, size))
            self._positions[lane] = (self._positions[lane] + 1) % _WRAP
        return plan

    def _announce(self, number: int, size_bytes: int, crc32: int | None) -> None:
        header = self._ring.header
        self._until(lambda: reached(header.taken[0], number - DESCRIPTORS + 1))
        row = header.descriptors[number % DESCRIPTORS]
        row.size_bytes, row.crc32, row.checked = size_bytes, crc32 or 0, crc32 is not None
        self._barrier()
        header.announced[0] = (number + 1) % _WRAP

    def announced(self, number: int, size_bytes: int) -> tuple[bool, int | None]:
        """Whether the message of that number was announced, and its CRC-32. Raises where its size is
        another.
        """
        header = self._ring.header
        if not reached(header.announced[0], number + 1):
            return False, None
        row = header.descriptors[number % DESCRIPTORS]
        if row.size_bytes != size_bytes and not self._gone.is_set():
            raise TransportError(f"{row.size_bytes} bytes were sent where {size_bytes} were expected")
        return True, row.crc32 if row.checked else None

    def take(self, number: int) -> None:
        """Let the sender announce another message."""
        self._ring.header.taken[0] = (number + 1) % _WRAP

    def _until(self, condition: Callable[[], bool]) -> None:
        pause, begun = 0.0, time.monotonic()
        while not condition():
            if self._gone.is_set():
                raise PeerLost("the other process is gone")
            time.sleep(pause)
            if not pause and time.monotonic() - begun > 0.002:
                pause = 50e-6

    def _move_on_host(self, number: int, what: Buffer, plan: list[tuple[int, int, int, int]]) -> int | None:
        header, ring, crc = self._ring.header, self._ring, None
        if not self._sending:
            self._until(lambda: self.announced(number, what.size_bytes)[0])
            crc = self.announced(number, what.size_bytes)[1]
        for lane, position, offset, size in plan:
            produced, consumed = header.produced[lane], header.consumed[lane]
            slot = ring.slot(lane, position)
            if self._sending:
                self._until(lambda: reached(consumed[0], position - SLOTS + 1))  # noqa: B023
                ctypes.memmove(slot, what.address + offset, size)
                self._barrier()
                produced[0] = (position + 1) % _WRAP
            else:
                self._until(lambda: reached(produced[0], position + 1))  # noqa: B023
                self._barrier()
                ctypes.memmove(what.address + offset, slot, size)
                self._barrier()
                consumed[0] = (position + 1) % _WRAP
        if self._gone.is_set():
            raise PeerLost("the other process is gone")
        if not self._sending:
            self.take(number)
        return crc

    def _move_on_gpu(
        self, number: int, what: Buffer, plan: list[tuple[int, int, int, int]], stream: int
    ) -> Operation:
        from gdrkit.native.cuda import WAIT_GEQ, WRITE_DEFAULT, cuda

        driver, ring, device = cuda(), self._ring, what.device
        assert device is not None
        driver.use(device)
        streams = self._streams[device]
        ready = self._event()
        driver.call("cuEventRecord", ready, stream)
        for lane_stream in streams[: len(plan)]:
            driver.call("cuStreamWaitEvent", lane_stream, ready, 0)
        self._spare_events.append(ready)
        produced = [ring.on_device(counter) for counter in ring.header.produced]
        consumed = [ring.on_device(counter) for counter in ring.header.consumed]
        wait, write = driver.function("cuStreamWaitValue32_v2"), driver.function("cuStreamWriteValue32_v2")
        copy, failed = driver.function("cuMemcpyAsync"), 0
        for lane, position, offset, size in plan:
            queue, slot = streams[lane], ring.slot(lane, position)
            if self._sending:
                failed = failed or wait(queue, consumed[lane], (position - SLOTS + 1) % _WRAP, WAIT_GEQ)
                failed = failed or copy(slot, what.address + offset, size, queue)
                failed = failed or write(queue, produced[lane], (position + 1) % _WRAP, WRITE_DEFAULT)
            else:
                failed = failed or wait(queue, produced[lane], (position + 1) % _WRAP, WAIT_GEQ)
                failed = failed or copy(what.address + offset, slot, size, queue)
                failed = failed or write(queue, consumed[lane], (position + 1) % _WRAP, WRITE_DEFAULT)
        if failed:
            raise TransportError(f"the GPU refused a copy: CUresult {failed}")
        events = []
        for lane_stream in streams[: len(plan)]:
            events.append(self._event())
            driver.call("cuEventRecord", events[-1], lane_stream)
            driver.call("cuStreamWaitEvent", stream, events[-1], 0)
        return _OnGpu(self, number, what.size_bytes, events)

    def prepare(self, device: int) -> None:
        """Pin the ring and make the lanes' streams, once for each device."""
        if device not in self._streams:
            from gdrkit.native.cuda import STREAM_NON_BLOCKING, cuda

            driver = cuda()
            driver.use(device)
            self._ring.pin()
            self._streams[device] = [
                driver.number("cuStreamCreate", STREAM_NON_BLOCKING) for _ in range(LANES)
            ]

    def _event(self) -> int:
        from gdrkit.native.cuda import EVENT_DISABLE_TIMING, cuda

        if self._spare_events:
            return self._spare_events.pop()
        return cuda().number("cuEventCreate", EVENT_DISABLE_TIMING)

    def spare(self, events: list[int]) -> None:
        """Take back events that nobody waits for any more."""
        self._spare_events += events

    @property
    def sending(self) -> bool:
        return self._sending

    @property
    def gone(self) -> bool:
        return self._gone.is_set()

    def abandon(self) -> None:
        self._gone.set()
        self._ring.poison(self._positions)

    def close(self) -> None:
        """Wait for our own streams and thread, then unmap. While they run, keep what they wait for in
        reach.
        """
        self._gone.set()
        deadline = time.monotonic() + 10
        while self._last is not None and time.monotonic() < deadline:
            self._ring.poison(self._positions)
            try:
                if self._last.done():
                    break
            except TransportError:
                break
            time.sleep(0.001)
        self._thread.shutdown(wait=True)
        self._release_gpu()
        self._last = None
        self._ring.close()

    def _release_gpu(self) -> None:
        if not self._streams:
            return
        from gdrkit.native.cuda import cuda

        driver = cuda()
        for device, streams in self._streams.items():
            driver.use(device)
            for stream in streams:
                driver.call("cuStreamSynchronize", stream)
                driver.call("cuStreamDestroy_v2", stream)
        for event in self._spare_events:
            driver.call("cuEventDestroy_v2", event)
        self._streams.clear()
        self._spare_events.clear()


class _OnGpu:
    """A message whose copies are queued on the lanes' streams."""

    def __init__(self, half: _Half, number: int, size_bytes: int, events: list[int]) -> None:
        self._half, self._number, self._size, self._events = half, number, size_bytes, events
        self._crc: int | None = None
        self._finished = False

    def done(self) -> bool:
        if self._finished:
            return True
        from gdrkit.native.cuda import cuda

        if not self._half.sending:
            arrived, self._crc = self._half.announced(self._number, self._size)
            if not arrived and not self._half.gone:
                return False
        driver = cuda()
        if not all(driver.event_done(event) for event in self._events):
            return False
        self._finished = True
        if not self._half.sending:
            self._half.take(self._number)
        self._half.spare(self._events)
        if self._half.gone:
            raise PeerLost("the other process is gone")
        return True

    def expected_crc32(self) -> int | None:
        return self._crc
