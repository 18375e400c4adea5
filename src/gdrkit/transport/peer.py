"""The path `peer`: one GPU's copy engine writes into the other's memory, over NVLink if there is one, else
over PCIe.

The receiver posts in shared memory where a message goes to; the sender copies it there and sets a word, for
which CPUs and streams wait. A stream that receives needs no thread of its process: it posts and waits by
itself. Threads move a message through the ring in shared memory if one end is host memory, or is GPU memory
that CUDA has no IPC handle for: memory of cuMemCreate, which PyTorch uses with expandable segments. Source:
CUDA driver API, cuIpcGetMemHandle.
"""

from __future__ import annotations

from gdrkit.transport.buffers import Buffer
from gdrkit.transport.operation import Operation
from gdrkit.transport.peer_direction import Direction, Message
from gdrkit.transport.peer_receiver import PeerReceiver
from gdrkit.transport.peer_sender import PeerSender
from gdrkit.transport.ring import Ring
from gdrkit.transport.shared import SharedChannel


class PeerChannel:
    """Messages from one GPU's memory into another's. Each direction has a ring with slots for messages."""

    name = "peer"

    def __init__(self, out: Ring, into: Ring) -> None:
        self._staged = SharedChannel(out, into, threaded=True)
        self._sender, self._receiver = PeerSender(out, self._staged), PeerReceiver(into, self._staged)

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        return self._begin(self._sender, what, stream, crc32)

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        return self._begin(self._receiver, into, stream, None)

    def _begin(self, way: Direction, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        if what.device is not None:  # both directions together: this may block while a stream waits
            self._staged.prepare(what.device)  # pins both rings: their slots too
            self._sender.prepare(what.device)
            self._receiver.prepare(what.device)
        return way.begin(Message(way, what, crc32), stream)

    def abandon(self) -> None:
        self._staged.abandon()
        self._sender.release()
        self._receiver.release()

    def close(self) -> None:
        self.abandon()
        self._sender.close()
        self._receiver.close()
        self._staged.close()
