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
from gdrkit.transport.peer_receiver import PeerReceiver
from gdrkit.transport.peer_sender import PeerSender
from gdrkit.transport.ring import Ring


class PeerChannel:
    """Messages from one GPU's memory into another's. Each direction has a ring with slots for messages."""

    name = "peer"

    def __init__(self, out: Ring, into: Ring) -> None:
        self._sender, self._receiver = PeerSender(out), PeerReceiver(into)

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        self._prepare(what.device)
        return self._sender.begin(what, stream, crc32)

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        self._prepare(into.device)
        return self._receiver.begin(into, stream, None)

    def _prepare(self, device: int | None) -> None:
        # Both directions together: pinning memory may block on a stream that waits for the other direction.
        if device is not None:
            self._sender.prepare(device)
            self._receiver.prepare(device)

    def abandon(self) -> None:
        self._sender.release()
        self._receiver.release()

    def close(self) -> None:
        self.abandon()
        self._sender.close()
        self._receiver.close()
