"""A channel between two processes of a machine: one direction each way, over shared memory."""

from __future__ import annotations

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.operation import Channel, Operation
from gdrkit.transport.peer_direction import PeerDirection
from gdrkit.transport.shared import SharedDirection


class LocalChannel(Channel):
    """Messages in both directions, on the path `shared` or `peer`."""

    def __init__(self, out: SharedDirection | PeerDirection, into: SharedDirection | PeerDirection) -> None:
        super().__init__((out, into))
        self.out, self.into = out, into

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        self.prepare(what.device)
        return self.out.begin(what, stream, crc32)

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        self.prepare(into.device)
        return self.into.begin(into, stream, None)
