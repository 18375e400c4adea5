"""How far a program's streams have come with what was queued on them here."""

from __future__ import annotations

from gdrkit.agent.native.cuda_abi import EVENT_DISABLE_TIMING
from gdrkit.transport.native.cuda import cuda


class StreamEvents:
    """For each stream an event after our latest work there: what that work reads must last until then.

    All methods but the first want a context to be current, and raise CudaError.
    """

    def __init__(self) -> None:
        self._events: dict[int, int] = {}

    def mark(self, stream: int) -> None:
        """This was our latest work on the stream."""
        driver = cuda()
        if stream not in self._events:
            self._events[stream] = driver.number("cuEventCreate", EVENT_DISABLE_TIMING)
        driver.call("cuEventRecord", self._events[stream], stream)

    def follow(self, stream: int, other: int) -> None:
        """Let what will be queued on a stream wait for our latest work on another."""
        cuda().call("cuStreamWaitEvent", stream, self._events[other], 0)

    def all_passed(self) -> bool:
        """Whether nothing of our work is left."""
        return all(cuda().event_done(event) for event in self._events.values())

    def close(self) -> None:
        """Wait until nothing is left."""
        while self._events:
            _, event = self._events.popitem()
            cuda().call("cuEventSynchronize", event)
            cuda().call("cuEventDestroy_v2", event)
