"""Events that show how far a program's streams are with the work that was queued on them here."""

from __future__ import annotations

from gdrkit.agent.native.cuda_abi import EVENT_DISABLE_TIMING
from gdrkit.transport.native.cuda import cuda


class StreamEvents:
    """For each stream an event after our latest work there. The memory that the work uses must exist until
    then.

    All methods need a current CUDA context, and raise CudaError.
    """

    def __init__(self) -> None:
        self._events: dict[int, int] = {}

    def mark(self, stream: int) -> None:
        """Record the event after our latest work on the stream."""
        driver = cuda()
        if stream not in self._events:
            self._events[stream] = driver.number("cuEventCreate", EVENT_DISABLE_TIMING)
        driver.call("cuEventRecord", self._events[stream], stream)

    def follow(self, stream: int, other: int) -> None:
        """Make work queued later on a stream wait for our latest work on another."""
        cuda().call("cuStreamWaitEvent", stream, self._events[other], 0)

    def all_passed(self) -> bool:
        """Whether all our work is complete."""
        return all(cuda().event_done(event) for event in self._events.values())

    def close(self) -> None:
        """Wait for all our work, and destroy the events."""
        while self._events:
            _, event = self._events.popitem()
            cuda().call("cuEventSynchronize", event)
            cuda().call("cuEventDestroy_v2", event)
