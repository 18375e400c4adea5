"""A GPU's own streams, and events that show how far work is that was queued here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from gdrkit.agent.native.cuda_abi import EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING, WAIT_GEQ
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.ring import SLOTS

_DRAIN_SECONDS = 10.0  # far longer than copying a full ring takes
_QUEUES = 8
"""Hardware queues that streams share, unless CUDA_DEVICE_MAX_CONNECTIONS sets another number (CUDA C
Programming Guide, "CUDA environment variables").
"""


def few_queues() -> bool:
    """Whether the program asked for fewer hardware queues than the default."""
    asked = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "")
    return asked.isascii() and asked.isdigit() and len(asked) < 10 and int(asked) < _QUEUES


class Gpu:
    """Streams for copies, and events, of a device. All methods but `close` need its context, and
    all raise CudaError.
    """

    def __init__(self, device: int) -> None:
        self.driver, self._device = cuda(), device
        self._streams: list[int] = []
        self._events: list[int] = []
        self._spare: list[int] = []
        self._marks: dict[int, int] = {}  # for each of the program's streams, an event after our work there
        with self.driver.on(device):
            self.stream = self.new_stream()
            self._bytes = self.driver.number("cuMemAlloc_v2", 2 * (1 + SLOTS))

    def new_stream(self) -> int:
        self._streams.append(self.driver.number("cuStreamCreate", STREAM_NON_BLOCKING))
        return self._streams[-1]

    def new_event(self) -> int:
        self._events.append(self.driver.number("cuEventCreate", EVENT_DISABLE_TIMING))
        return self._events[-1]

    def record(self, stream: int) -> int:
        """An event that passes when all work queued on a stream so far is done."""
        try:
            event = self._spare.pop()
        except IndexError:
            event = self.new_event()
        self.driver.call("cuEventRecord", event, stream)
        return event

    def passed(self, event: int) -> bool:
        """Whether an event of `record` has passed; do not ask again after that."""
        if not self.driver.event_done(event):
            return False
        self._spare.append(event)
        return True

    def wait(self, stream: int, address: int, value: int) -> None:
        """Make a program's stream wait until a word has reached a value.

        The wait goes into the hardware queue that the stream used last. After the program's own copy that is
        a queue of copies, and all copies there would wait, among them those that this wait is for (seen on
        an H200, driver 580.159.04). So the stream sets a byte first: that is not queued among the copies.
        """
        self.driver.call("cuMemsetD8Async", self._bytes, 0, 1, stream)
        self.driver.call("cuStreamWaitValue32_v2", stream, address, value, WAIT_GEQ)

    def mark(self, stream: int) -> None:
        """Note that work was queued on a program's stream: the memory that it uses must exist until then."""
        if stream not in self._marks:
            self._marks[stream] = self.new_event()
        self.driver.call("cuEventRecord", self._marks[stream], stream)

    def follow_mark(self, stream: int, other: int) -> None:
        """Make work queued later on a stream wait for our latest work on a program's stream."""
        self.driver.call("cuStreamWaitEvent", stream, self._marks[other], 0)

    def copied(self, destination: int, source: int, size_bytes: int) -> Callable[[], bool]:
        """Copy between any two addresses that CUDA knows. Returns whether it is done, as `passed`."""
        self.driver.copy(destination, source, size_bytes, self.stream)
        return partial(self.passed, self.record(self.stream))

    def land(self, source: int, index: int) -> Callable[[], bool]:
        """Bring a byte and its neighbour to the GPU, for a stream that waits and then calls `take_landed`.
        Returns whether they are there, as `passed`.
        """
        return self.copied(self._bytes + 2 * (1 + index), source, 2)

    def take_landed(self, destination: int, index: int, stream: int) -> int:
        """Let a program's stream copy a byte that `land` brings. Returns an event, as `record`.

        Not from host memory, behind the wait: with few hardware queues that stopped copies of other streams
        (in mixed messages on H200s, driver 580.159.04; the copy alone behind one wait did not).
        """
        self.driver.call("cuMemcpyAsync", destination, self._bytes + 2 * (1 + index), 1, stream)
        return self.record(stream)

    def read(self, destination: int, source: int, size_bytes: int) -> tuple[int, Callable[[], bool]]:
        """Copy from the GPU to host memory, as Cuda.read; with the address, whether it is done."""
        at = self.driver.read(destination, source, size_bytes, self.stream)
        return at, partial(self.passed, self.record(self.stream))

    def close(self, release: Callable[[], object] = lambda: None, patience: float = 0.0) -> None:
        """Wait for all queued work, and free the streams and the events. After `patience` seconds `release`
        is called again and again meanwhile: it lets streams go on that wait for a peer that is gone.
        """
        begun = time.monotonic()
        with self.driver.on(self._device):
            while not self._idle() and (waited := time.monotonic() - begun) < _DRAIN_SECONDS:
                if waited >= patience:
                    release()
                time.sleep(0.001)
            for event in self._marks.values():
                self.driver.call("cuEventSynchronize", event)
            for stream in self._streams:
                self.driver.call("cuStreamSynchronize", stream)
                self.driver.call("cuStreamDestroy_v2", stream)
            for event in self._events:
                self.driver.call("cuEventDestroy_v2", event)
            self.driver.call("cuMemFree_v2", self._bytes)

    def _idle(self) -> bool:
        return all(map(self.driver.stream_done, self._streams)) and all(
            map(self.driver.event_done, self._marks.values())
        )
