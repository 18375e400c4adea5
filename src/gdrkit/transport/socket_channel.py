"""The path `tcp`, and what it has in common with `verbs`: sockets and threads."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from gdrkit.transport.buffers import Buffer, memory
from gdrkit.transport.errors import TransportError
from gdrkit.transport.handshake import read_exactly, receive_into, send_all
from gdrkit.transport.operation import Channel, Operation, ThreadedOperation
from gdrkit.transport.sealed_socket import TAG_BYTES, SealedSocket, check
from gdrkit.transport.staging import Staging

_HEADER = struct.Struct("!QII")  # bytes, CRC-32, the flag below
_MAC_PIECE = 256 << 10
_SMALLEST_PART = 1 << 20
_CHECKED = 1
"""The flag of a message that has a CRC-32."""


class SocketChannel(Channel):
    """The common part of both paths: a thread for each socket, in stream order. The first socket of each
    direction has the headers; the others carry parts of large messages.
    """

    def __init__(self, out: Sequence[SealedSocket], into: Sequence[SealedSocket]) -> None:
        self._out, self._into = (
            [_SocketLane(sealed) for sealed in out],
            [_SocketLane(sealed) for sealed in into],
        )
        super().__init__((*self._out, *self._into))

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        return self.run(what, stream, lambda staging: self.push(what, staging, crc32))

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        self.prepare(into.device)
        return self._into[0].submit(into, stream, lambda staging: self.pull(into, staging))

    def run(self, what: Buffer, stream: int | None, work: Callable[[Staging | None], None]) -> Operation:
        """Run work on memory in the sending thread, in stream order."""
        self.prepare(what.device)
        return self._out[0].submit(what, stream, work)

    @abstractmethod
    def push(self, what: Buffer, staging: Staging | None, crc32: int | None) -> None:
        """Send one message. Runs in the sending thread."""

    @abstractmethod
    def pull(self, into: Buffer, staging: Staging | None) -> int | None:
        """Receive one message; returns its CRC-32, or None. Runs in the receiving thread."""

    def announce(self, what: Buffer, crc32: int | None) -> None:
        """Send the header of the next message."""
        checked = _CHECKED if crc32 is not None else 0
        self._out[0].sealed.send(_HEADER.pack(what.size_bytes, crc32 or 0, checked))

    def announced(self, into: Buffer) -> int | None:
        """The CRC-32 of the next message, or None. Raises TransportError if its size differs."""
        size, crc, flags = _HEADER.unpack(self._into[0].sealed.receive(_HEADER.size))
        if size != into.size_bytes:
            raise TransportError(f"message of {size} bytes received where {into.size_bytes} were expected")
        return crc if flags & _CHECKED else None

    def close(self) -> None:
        self.abandon()  # a thread of one socket waits for those of others
        super().close()


class _SocketLane:
    """One direction of a socket, and the thread that moves messages over it one after another, with pinned
    memory for each device it has used.
    """

    def __init__(self, sealed: SealedSocket) -> None:
        self.sealed, sealed.deadline = sealed, None
        sealed.sock.settimeout(None)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gdrkit-socket")
        self._staging: dict[int, Staging] = {}

    def prepare(self, device: int) -> None:
        if device not in self._staging:
            self._staging[device] = Staging(device)

    def release(self) -> None:
        self.sealed.shut_down()

    def submit(
        self, what: Buffer, stream: int | None, work: Callable[[Staging | None], int | None]
    ) -> ThreadedOperation:
        if what.device is None:
            return ThreadedOperation(self._thread.submit(work, None))
        staging = self._staging[what.device]
        turn = staging.enter(stream)

        def run() -> int | None:
            with turn:
                return work(staging)

        return ThreadedOperation(self._thread.submit(run))

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        for staging in self._staging.values():
            staging.close()
        self.sealed.sock.close()


class TcpChannel(SocketChannel):
    """Bytes over TCP. GPU memory is staged through pinned memory; copies and socket I/O overlap. A large
    message is divided among the sockets, since one thread and one connection move less than a CPU's memory.

    With `authenticate` the bytes on each socket are followed by their tag, which `pull` checks at the end:
    the memory is written before that, but the message is not done.
    """

    def __init__(
        self, out: Sequence[SealedSocket], into: Sequence[SealedSocket], authenticate: bool = False
    ) -> None:
        super().__init__(out, into)
        self._authenticate = authenticate

    def push(self, what: Buffer, staging: Staging | None, crc32: int | None) -> None:
        self.announce(what, crc32)
        self._spread(what, staging, self._out, self._push_part)

    def pull(self, into: Buffer, staging: Staging | None) -> int | None:
        crc = self.announced(into)
        self._spread(into, staging, self._into, self._pull_part)
        return crc

    def _spread(
        self,
        what: Buffer,
        staging: Staging | None,
        lanes: Sequence[_SocketLane],
        move: Callable[[SealedSocket, Buffer, Staging | None], None],
    ) -> None:
        """Move one part of the memory over each socket, the first part in this thread."""
        first, *others = _parts(what, len(lanes))
        running = [
            lane.submit(part, None, partial(move, lane.sealed, part))
            for lane, part in zip(lanes[1:], others)  # noqa: B905 (Python 3.9)
        ]
        move(lanes[0].sealed, first, staging)
        for other in running:
            other.result()

    def _push_part(self, sealed: SealedSocket, what: Buffer, staging: Staging | None) -> None:
        mac = sealed.data_sent() if self._authenticate else None
        for found in staging.out_of(what) if staging is not None else _of_host(what, mac is not None):
            piece = memory(*found)
            if mac:
                mac.update(piece)
            send_all(sealed.sock, piece)
        if mac:
            send_all(sealed.sock, mac.digest())

    def _pull_part(self, sealed: SealedSocket, into: Buffer, staging: Staging | None) -> None:
        mac = sealed.data_received() if self._authenticate else None
        for found in staging.into(into) if staging is not None else _of_host(into, False):
            receive_into(sealed.sock, memory(*found), mac=mac)
        if mac:
            check(mac, read_exactly(sealed.sock, TAG_BYTES))


def _parts(what: Buffer, sockets: int) -> list[Buffer]:
    """The memory in one part for each socket that is worth its thread. Both sides divide it alike."""
    count = max(1, min(sockets, what.size_bytes // _SMALLEST_PART))
    step = -(-what.size_bytes // count)
    return [
        what.part(at, min(step, what.size_bytes - at)) for at in range(0, what.size_bytes, step or 1)
    ] or [what]


def _of_host(what: Buffer, in_pieces: bool) -> Iterator[tuple[int, int]]:
    """Host memory as a whole, or in pieces that a CPU's cache still holds after hashing them."""
    step = _MAC_PIECE if in_pieces else what.size_bytes
    for offset in range(0, what.size_bytes, step or 1):
        yield what.address + offset, min(step, what.size_bytes - offset)
