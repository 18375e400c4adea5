"""A channel between two processes of a machine: one direction each way, over shared memory."""

from __future__ import annotations

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.operation import Operation
from gdrkit.transport.peer_direction import PeerDirection
from gdrkit.transport.shared import SharedDirection


class LocalChannel:
    """Messages in both directions, on the path `shared` or `peer`."""

    def __init__(self, out: SharedDirection | PeerDirection, into: SharedDirection | PeerDirection) -> None:
        self.out, self.into = out, into

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        self._prepare(what.device)
        return self.out.begin(what, stream, crc32)

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        self._prepare(into.device)
        return self.into.begin(into, stream, None)

    def _prepare(self, device: int | None) -> None:
        # Both directions together: pinning memory may block on a stream that waits for the other direction.
        if device is not None:
            self.out.prepare(device)
            self.into.prepare(device)

    def abandon(self) -> None:
        self.out.release()
        self.into.release()

    def close(self) -> None:
        self.out.close()
        self.into.close()
