"""Common parts of the paths that use threads: pinned memory for staging, and GPU streams that wait for a
thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

from gdrkit.agent.native.cuda_abi import (
    EVENT_DISABLE_TIMING,
    REGISTER_DEVICE_MAP,
    REGISTER_PORTABLE,
    STREAM_NON_BLOCKING,
    WAIT_GEQ,
)
from gdrkit.transport.buffers import Buffer, memory
from gdrkit.transport.operation import until
from gdrkit.transport.stream_events import StreamEvents

CHUNK_BYTES = 4 << 20
HALVES = 2


class Tickets:
    """A pinned counter: a stream waits for a ticket, and a thread redeems it. So a thread's work keeps its
    position in stream order, as a copy on that stream would.
    """

    def __init__(self) -> None:
        self._address = 0
        self._issued = 0
        self._device = 0  # the device whose context allocated the counter
        self._stream_events: dict[int, StreamEvents] = {}

    def prepare(self, device: int) -> None:
        """Allocate the counter, once. Call this while no stream waits for a thread."""
        from gdrkit.transport.native.cuda import cuda

        if not self._address:
            with cuda().on(device):
                flags = REGISTER_DEVICE_MAP | REGISTER_PORTABLE
                self._address, self._device = cuda().number("cuMemHostAlloc", 4096, flags), device
            ctypes.memset(self._address, 0, 4096)

    def issue(self, device: int, stream: int) -> Callable[[], None]:
        """Make the stream wait until the returned function is called. Call these functions in order of
        issue.
        """
        from gdrkit.transport.native.cuda import cuda

        driver = cuda()
        self._issued = ticket = (self._issued + 1) % (1 << 32)
        counter = ctypes.c_uint32.from_address(self._address)
        with driver.on(device):
            device_address = driver.number("cuMemHostGetDevicePointer_v2", self._address, 0)
            driver.call("cuStreamWaitValue32_v2", stream, device_address, ticket, WAIT_GEQ)
            self._stream_events.setdefault(device, StreamEvents()).mark(stream)

        def redeem() -> None:
            counter.value = ticket

        return redeem

    def close(self) -> None:
        """Free the counter after the last stream has passed it. All tickets must be redeemed."""
        if self._address:
            from gdrkit.transport.native.cuda import cuda

            for device, events in self._stream_events.items():
                with cuda().on(device):
                    events.close()
            with cuda().on(self._device):
                cuda().call("cuMemFreeHost", self._address)
            self._address = 0


class Staging:
    """Two pinned halves and a stream of one device: while one half is on the wire, the other is copied."""

    def __init__(self, device: int) -> None:
        from gdrkit.transport.native.cuda import cuda

        self._driver, self._device = cuda(), device
        with self._driver.on(device):
            self._address = self._driver.number("cuMemHostAlloc", HALVES * CHUNK_BYTES, REGISTER_PORTABLE)
            self._stream = self._driver.number("cuStreamCreate", STREAM_NON_BLOCKING)
            self._events = [self._driver.number("cuEventCreate", 2) for _ in range(HALVES)]

    def begin(self, event: int | None) -> None:
        """Prepare the thread that will copy. Returns when an event that was recorded elsewhere has passed,
        and destroys that event.

        A copy is queued here only when it can run. A copy that waits in a stream blocks all copies that
        share its hardware queue (CUDA_DEVICE_MAX_CONNECTIONS; seen on H200s), including those it waits
        for.
        """
        self._driver.use(self._device)
        if event is not None:
            until(lambda: self._driver.event_done(event))
            self._driver.call("cuEventDestroy_v2", event)

    def settle(self) -> None:
        """Wait until all work queued here is done."""
        self._driver.call("cuStreamSynchronize", self._stream)

    def out_of(self, what: Buffer) -> Iterator[memoryview]:
        """The contents of GPU memory, piece by piece; each is valid until the next but one is requested."""
        for address, size in self.pieces_out_of(what):
            yield memory(address, size)

    def pieces_out_of(self, what: Buffer) -> Iterator[tuple[int, int]]:
        """As `out_of`, but each piece as its address in pinned memory and its size in bytes."""
        pieces = [
            (offset, min(CHUNK_BYTES, what.size_bytes - offset))
            for offset in range(0, what.size_bytes, CHUNK_BYTES)
        ]
        for index in range(len(pieces) + 1):
            if index < len(pieces):
                offset, size = pieces[index]
                half = self._address + index % HALVES * CHUNK_BYTES
                self._driver.copy(half, what.address + offset, size, self._stream)
                self._driver.call("cuEventRecord", self._events[index % HALVES], self._stream)
            if index:
                self._wait(index - 1)
                yield self._address + (index - 1) % HALVES * CHUNK_BYTES, pieces[index - 1][1]

    def into(self, what: Buffer, fill: Callable[[memoryview], None]) -> None:
        """Fill GPU memory: `fill` is called for each piece in order. Returns when all bytes are in place."""
        self.pieces_into(what, lambda address, size: fill(memory(address, size)))

    def pieces_into(self, what: Buffer, fill: Callable[[int, int], None]) -> None:
        """As `into`, but `fill` takes an address in pinned memory and a size in bytes."""
        for index, offset in enumerate(range(0, what.size_bytes, CHUNK_BYTES)):
            size = min(CHUNK_BYTES, what.size_bytes - offset)
            half = self._address + index % HALVES * CHUNK_BYTES
            if index >= HALVES:
                self._wait(index)
            fill(half, size)
            self._driver.copy(what.address + offset, half, size, self._stream)
            self._driver.call("cuEventRecord", self._events[index % HALVES], self._stream)
        self.settle()

    def copy(self, destination: int, source: int, size_bytes: int) -> None:
        """Copy between any two addresses that CUDA knows; returns when it is done."""
        self._driver.copy(destination, source, size_bytes, self._stream)
        self.settle()

    def _wait(self, index: int) -> None:
        # Yields the GIL: ctypes releases it for each call, and the copy of a piece takes 80 us at 50 GB/s.
        while not self._driver.event_done(self._events[index % HALVES]):
            continue

    def close(self) -> None:
        """Free the memory, the stream and the events."""
        with self._driver.on(self._device):
            self.settle()
            self._driver.call("cuStreamDestroy_v2", self._stream)
            for event in self._events:
                self._driver.call("cuEventDestroy_v2", event)
            self._driver.call("cuMemFreeHost", self._address)


def recorded(device: int, stream: int) -> int:
    """An event that passes when all work queued on a stream so far is done. Pass it to Staging.begin."""
    from gdrkit.transport.native.cuda import cuda

    driver = cuda()
    with driver.on(device):
        event = driver.number("cuEventCreate", EVENT_DISABLE_TIMING)
        driver.call("cuEventRecord", event, stream)
    return event
