"""The path `tcp`, and what it has in common with `verbs`: messages that move over sockets."""

from __future__ import annotations

import select
import socket
import struct
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import chain

from gdrkit.transport.buffers import Buffer, memory
from gdrkit.transport.errors import PeerLost, TransportError
from gdrkit.transport.operation import Channel, Operation
from gdrkit.transport.sealed_socket import TAG_BYTES, SealedSocket, check
from gdrkit.transport.staging import Piece, Staging
from gdrkit.transport.steps import StepQueue, Steps, Wait, at_once, passed, run, socket_wait, threads_done

_HEADER = struct.Struct("!QII")  # bytes, CRC-32, the flag below
_SMALLEST_PART = 1 << 20
_CHECKED = 1
"""The flag of a message that has a CRC-32."""
_MAC_PIECE = 256 << 10
_PIECE = 1 << 20  # bytes that are moved before others have a turn
_RECEIVED_BYTES = 256 << 10  # that a CPU's cache holds between the kernel's copy and the next
_AT_ONCE, _MAY_WAIT = int(socket.MSG_DONTWAIT), 0  # flags for a step, and for a thread
_Waits = Generator[Wait, None, None]


class SocketChannel(Channel):
    """The common part of both paths, in stream order. The first socket of each direction has the headers;
    the others carry parts of large messages.
    """

    def __init__(self, out: Sequence[SealedSocket], into: Sequence[SealedSocket]) -> None:
        self._out, self._into = [_SocketLane(one) for one in out], [_SocketLane(one) for one in into]
        self._sends, self._receives = StepQueue(), StepQueue()
        self._sends.partner, self._receives.partner = self._receives, self._sends
        super().__init__((*self._out, *self._into))

    def transmit(self, what: Buffer, stream: int | None, crc32: int | None) -> Operation:
        return self.run(what, stream, lambda staging: self.push(what, staging, crc32))

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        return self._put(
            self._receives, self._into[0], into, stream, lambda staging: self.pull(into, staging)
        )

    def run(self, what: Buffer, stream: int | None, work: Callable[[Staging | None], Steps]) -> Operation:
        """Run work on memory in the sending direction, in stream order."""
        return self._put(self._sends, self._out[0], what, stream, work)

    def _put(
        self,
        queue: StepQueue,
        lane: _SocketLane,
        what: Buffer,
        stream: int | None,
        work: Callable[[Staging | None], Steps],
    ) -> Operation:
        self.prepare(what.device)
        if what.device is None:
            return queue.put(work(None))
        staging = lane.staging[what.device]
        return queue.put(staging.in_turn(stream, work(staging)), staging.context(), now=stream is not None)

    @abstractmethod
    def push(self, what: Buffer, staging: Staging | None, crc32: int | None) -> Steps:
        """Send one message."""

    @abstractmethod
    def pull(self, into: Buffer, staging: Staging | None) -> Steps:
        """Receive one message."""

    def header(self, what: Buffer, crc32: int | None) -> bytes:
        """The frame that announces the next message."""
        checked = _CHECKED if crc32 is not None else 0
        return self._out[0].sealed.sealed(_HEADER.pack(what.size_bytes, crc32 or 0, checked))

    def announced(self, into: Buffer) -> Steps:
        """The CRC-32 of the next message, or None. Raises TransportError if its size differs."""
        size, crc, flags = _HEADER.unpack((yield from self._into[0].frame(_HEADER.size)))
        if size != into.size_bytes:
            raise TransportError(f"message of {size} bytes received where {into.size_bytes} were expected")
        return crc if flags & _CHECKED else None

    def close(self) -> None:
        self.abandon()  # threads and queues wait for sockets
        self._sends.abandon()
        self._receives.abandon()
        super().close()


class _SocketLane:
    """One direction of a socket, with a thread for parts of large messages, and with pinned memory for each
    device it has used.
    """

    def __init__(self, sealed: SealedSocket) -> None:
        self.sealed, self._sock, sealed.deadline = sealed, sealed.sock, None
        self._sock.settimeout(None)
        self._readable, self._writable = (
            socket_wait(self._sock.fileno(), events) for events in (select.POLLIN, select.POLLOUT)
        )
        self.staging: dict[int, Staging] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gdrkit-socket")

    def prepare(self, device: int) -> None:
        if device not in self.staging:
            self.staging[device] = Staging(device)

    def release(self) -> None:
        self.sealed.shut_down()

    def start(
        self, what: Buffer, move: Callable[[_SocketLane, Buffer, Staging | None], Steps]
    ) -> Future[None]:
        """Let the thread move a part of a message."""
        staging = None if what.device is None else self.staging[what.device]

        def work() -> None:
            with staging.context() if staging else nullcontext():
                run(move(self, what, staging))

        return self._thread.submit(work)

    def write(self, data: bytes | memoryview, flags: int = _AT_ONCE, *, head: bytes = b"") -> _Waits:
        """Send all of the data, after a head that is sent at once. Raises PeerLost."""
        left = memoryview(data)
        while head or left:
            try:
                sent = self._sock.sendmsg((head, left), (), flags) if head else self._sock.send(left, flags)
            except BlockingIOError:
                yield self._writable
            except OSError as error:
                raise PeerLost(f"the connection broke: {error.strerror}") from None
            else:
                head, left = head[sent:], left[max(0, sent - len(head)) :]

    def read(
        self, target: memoryview, flags: int = _AT_ONCE, update: Callable[[memoryview], object] | None = None
    ) -> _Waits:
        """Fill memory, and update a MAC with it. Raises PeerLost, also at the end of the stream."""
        while target:
            try:
                count = self._sock.recv_into(target, min(len(target), _RECEIVED_BYTES), flags)
            except BlockingIOError:
                yield self._readable
                continue
            except OSError as error:
                raise PeerLost(f"the connection broke: {error.strerror}") from None
            if not count:
                raise PeerLost("the other side closed the connection")
            if update:
                update(target[:count])
            target = target[count:]

    def frame(self, size: int) -> Generator[Wait, None, bytes]:
        """A frame of that size. Raises AuthenticationFailed, PeerLost."""
        frame = bytearray(size + TAG_BYTES)
        yield from self.read(memoryview(frame))
        return self.sealed.opened(bytes(frame))

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        for staging in self.staging.values():
            staging.close()
        self._sock.close()


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

    def receive(self, into: Buffer, stream: int | None) -> Operation:
        if into.device is None or stream is None or into.size_bytes != 1:
            return super().receive(into, stream)
        self.prepare(into.device)
        staging = self._into[0].staging[into.device]
        return self._receives.put(staging.byte_in_turn(stream, into, self.pull), staging.context(), now=True)

    def push(self, what: Buffer, staging: Staging | None, crc32: int | None) -> Steps:
        header, parts = partial(self.header, what, crc32), _parts(what, len(self._out))
        if not parts:
            yield from self._push_part(self._out[0], what, staging, _AT_ONCE, header)
        else:
            yield from self._out[0].write(b"", head=header())
            yield from _by_threads(self._out, parts, self._push_part)
        return None

    def pull(self, into: Buffer, staging: Staging | None) -> Steps:
        parts = _parts(into, len(self._into))
        crc = yield from self.announced(into)
        if not parts:
            yield from self._pull_part(self._into[0], into, staging, _AT_ONCE)
        else:
            yield from _by_threads(self._into, parts, self._pull_part)
        return crc

    def _push_part(
        self,
        lane: _SocketLane,
        what: Buffer,
        staging: Staging | None,
        flags: int = _MAY_WAIT,
        header: Callable[[], bytes] = bytes,
    ) -> Steps:
        step = _MAC_PIECE if self._authenticate else 0
        pieces = staging.out_of(what) if staging else _of_host(what, flags, step)
        first = next(pieces, None)  # before the header is sealed: a GPU copies meanwhile
        head, mac = header(), lane.sealed.data_sent() if self._authenticate else None
        for piece in chain((first,) if first else (), pieces):
            if piece is not first:
                yield at_once
            if piece.ready:
                yield from passed(piece.ready)
            data = memory(piece.address, piece.size_bytes)
            if mac:
                mac.update(data)
            yield from lane.write(data, flags, head=head)
            head = b""
        yield from lane.write(mac.digest() if mac else b"", flags, head=head)
        return None

    def _pull_part(
        self, lane: _SocketLane, into: Buffer, staging: Staging | None, flags: int = _MAY_WAIT
    ) -> Steps:
        mac = lane.sealed.data_received() if self._authenticate else None
        for index, piece in enumerate(staging.into(into) if staging else _of_host(into, flags)):
            if index:
                yield at_once
            if piece.ready:
                yield from passed(piece.ready)
            target = memory(piece.address, piece.size_bytes)
            yield from lane.read(target, flags, mac.update if mac else None)
        if mac:
            tag = bytearray(TAG_BYTES)
            yield from lane.read(memoryview(tag), flags)
            check(mac, bytes(tag))
        return None


def _by_threads(
    lanes: Sequence[_SocketLane],
    parts: Sequence[Buffer],
    move: Callable[[_SocketLane, Buffer, Staging | None], Steps],
) -> _Waits:
    """Move one part of the memory over each socket."""
    yield from threads_done(
        [
            lane.start(part, move)
            for lane, part in zip(lanes, parts)  # noqa: B905 (Python 3.9)
        ]
    )


def _parts(what: Buffer, sockets: int) -> list[Buffer]:
    """The memory in one part for each socket that is worth its thread, or nothing if none is. Both sides
    divide it alike.
    """
    count = min(sockets, what.size_bytes // _SMALLEST_PART)
    if count < 2:
        return []
    step = -(-what.size_bytes // count)
    return [what.part(at, min(step, what.size_bytes - at)) for at in range(0, what.size_bytes, step)]


def _of_host(what: Buffer, flags: int, step: int = 0) -> Iterator[Piece]:
    """Host memory in pieces; as a whole for a thread."""
    step = step or (_PIECE if flags else what.size_bytes)
    for offset in range(0, what.size_bytes, step):
        yield Piece(what.address + offset, min(step, what.size_bytes - offset))
