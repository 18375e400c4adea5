"""Two processes that move memory: in messages (send and recv), or one-sided (write and read)."""

from __future__ import annotations

import ctypes
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from gdrkit.transport import protocol
from gdrkit.transport.buffers import Buffer, buffer
from gdrkit.transport.errors import PeerLost, TransportError
from gdrkit.transport.handshake import read_frame, write_frame
from gdrkit.transport.mapped import MappedMemory
from gdrkit.transport.operation import Channel, Operation
from gdrkit.transport.rdma import Endpoint, RdmaChannel
from gdrkit.transport.registration import RegistrationRefusal
from gdrkit.transport.transfer import OneSided, Transfer
from gdrkit.transport.window import Window, agree

MESSAGES, OURS, THEIRS = 0, 1, 2
"""The three channels: messages, requests that this side makes, requests that the other side makes."""

_Told = TypeVar("_Told")


class Connection:
    """A pair of processes, on one path. Made by `connect` and `Listener.accept`; close it, or use
    `with`.

    `path` is the path that its bytes take, `considered` the better ones that could not be had, with the
    reason. Methods may be called from several threads; messages arrive in the order in which they were
    sent.
    """

    def __init__(
        self,
        sock: socket.socket,
        channels: tuple[Channel, Channel, Channel],
        considered: tuple[str, ...],
        endpoint: Endpoint | None = None,
        *,
        listening: bool = False,
        gpu: int | None = None,
    ) -> None:
        self.path = channels[MESSAGES].name
        self.considered = considered
        self._sock, self._endpoint = sock, endpoint
        self._listening, self._gpu = listening, gpu
        self._channels: tuple[Channel, ...] = channels
        self._sock.settimeout(None)
        self._broken: TransportError | None = None
        self._peer_closed_at: float | None = None
        self._lock, self._sending = threading.RLock(), threading.Lock()
        self._breaking = threading.RLock()
        self._exposed: list[tuple[Buffer, protocol.Region]] = []
        self._offers: list[protocol.Region] = []
        self._windows: list[protocol.WindowOffer] = []
        self._offered = threading.Condition(self._lock)
        self._requests: dict[int, OneSided] = {}
        self._numbers = 0
        self.refusals: tuple[RegistrationRefusal, ...] = ()
        self._served = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gdrkit-serve")
        self._reader = threading.Thread(target=self._listen, name="gdrkit-control", daemon=True)
        self._reader.start()

    def send(self, thing: Any, *, stream: int | None = 0, integrity: bool = False) -> Transfer:
        """Begin to send memory; see `buffer` for what counts as memory. Returns at once; but on `shared` it
        waits where 64 messages are under way already, or those under way are of the other kind of memory.

        GPU memory is sent after what is queued on `stream` now (a CUstream as an int; 0 is the default
        stream), and what is queued there later waits until the memory may be overwritten. With None it
        is sent at once, in no stream's order; what works on the memory has to be waited for before. With
        `integrity` its CRC-32 goes along: the receiver's `wait` raises IntegrityFailed if the bytes are
        not the same. That reads the memory on the CPU, and is slow. Raises TransportError where the
        connection is broken.
        """
        what = _settled(thing, stream)
        crc = self._crc(what, stream) if integrity else None
        with self._lock:
            self._check()
            return Transfer(self, self._channels[MESSAGES].transmit(what, stream, crc), what, received=False)

    def recv(self, thing: Any, *, stream: int | None = 0) -> Transfer:
        """Begin to receive a message of exactly this memory's size. As `send`: what is queued on
        `stream` later finds the message there. With None nothing may touch the memory before `wait`, and
        a large message is there some 2 % sooner on the path `shared`.
        """
        into = _writable(thing, stream)
        with self._lock:
            self._check(receiving=True)
            return Transfer(self, self._channels[MESSAGES].receive(into, stream), into, received=True)

    def exchange(
        self, thing: Any, *, readable: bool = True, writable: bool = True, timeout: float = 30
    ) -> protocol.Region:
        """Show memory to the other side and learn of its: both sides call this, and get each other's region.

        The memory stays exposed until the connection closes. Raises TimedOut, PeerLost.
        """
        what = buffer(thing, writable=writable)
        with self._lock:
            self._check()
            mine = protocol.Region(len(self._exposed), what.size_bytes, readable, writable)
            if self._endpoint and readable and writable:  # a key opens memory for both
                found = self._endpoint.keep(what)
                if found.region:
                    mine = mine._replace(address=what.address, rkey=found.region.rkey)
            self._exposed.append((what, mine))
            self.tell(mine)
            return self._told(self._offers, timeout, "exchanged no memory")

    def window(self, size_bytes: int, *, timeout: float = 30) -> Window:
        """Memory that both processes map, and the GPU of each side that named one: both sides call this,
        with the same size. A kernel here reads and writes what the other process owns, in place. On the
        path `shared` alone. Raises TransportError, PeerLost; see `Window` for what orders the two sides.
        """
        if size_bytes <= 0:
            raise TransportError(f"{size_bytes} bytes are no memory")
        with self._lock:
            self._check()
            if self.path != "shared":
                raise TransportError(f"a window needs the path shared, and this is {self.path}")
            return agree(
                size_bytes,
                self._gpu,
                makes=self._listening,
                tell=self.tell,
                told=lambda: self._told(self._windows, timeout, "opened no window"),
            )

    def _told(self, box: list[_Told], timeout: float, failing: str) -> _Told:
        """The next message of a kind. Raises PeerLost; holds the lock, except to wait."""
        if not self._offered.wait_for(lambda: box or self._broken, timeout):
            self.break_(PeerLost(f"the other side {failing} within {timeout} s"))
        if not box:
            self._check()
        return box.pop(0)

    def write(
        self,
        thing: Any,
        to: protocol.Region,
        offset: int = 0,
        *,
        stream: int | None = 0,
        integrity: bool = False,
    ) -> Transfer:
        """Begin to write memory into the other side's region; nobody there has to call anything. It is
        done when the bytes are in place. Its `wait` raises RemoteRefused for what the region does not
        allow.
        """
        what = _settled(thing, stream)
        return self._ask(what, to, offset, True, stream, self._crc(what, stream) if integrity else None)

    def read(self, thing: Any, of: protocol.Region, offset: int = 0, *, stream: int | None = 0) -> Transfer:
        """Begin to read from the other side's region into memory. As `write`."""
        into = _writable(thing, stream)
        return self._ask(into, of, offset, False, stream, None)

    def _ask(
        self,
        what: Buffer,
        region: protocol.Region,
        offset: int,
        write: bool,
        stream: int | None,
        crc: int | None,
    ) -> Transfer:
        with self._lock:
            self._check()
            channel = self._channels[OURS]
            if region.rkey and crc is None and isinstance(channel, RdmaChannel):
                operation = channel.access(what, stream, region, offset, write=write)
                return Transfer(self, operation, what, received=not write)
            self._numbers += 1
            begin: Callable[[], Operation] = (
                (lambda: channel.transmit(what, stream, crc))
                if write
                else (lambda: channel.receive(what, stream))
            )
            asked = self._requests[self._numbers] = OneSided(begin, needs_done=write)
            self.tell(
                protocol.MemoryRequest(
                    self._numbers, write, region.token, offset, what.size_bytes, crc is not None
                )
            )
            return Transfer(self, asked, what, received=not write)

    def register(self, thing: Any) -> str:
        """Register memory for as long as the connection lasts, so that no transfer has to; the path that
        took it: `dmabuf`, `peermem`, `host`, or `staged` for GPU memory that none took (see
        `refusals`). The memory must stay where it is, and is kept alive. On other paths than `verbs`
        nothing has to be registered.
        """
        what = buffer(thing)
        if self._endpoint is None:
            return "host" if what.device is None else self.path
        found = self._endpoint.keep(what)
        self.refusals = found.refusals
        return found.path

    def _crc(self, what: Buffer, stream: int | None) -> int:
        if what.device is not None and stream is not None:
            from gdrkit.transport.native.cuda import cuda

            with cuda().on(what.device):
                cuda().call("cuStreamSynchronize", stream)
        return what.crc32()

    @property
    def broken(self) -> TransportError | None:
        """Why this connection cannot be used any more, or None."""
        return self._broken

    @property
    def peer_closed_at(self) -> float | None:
        """When (time.monotonic) the other side closed in good order, or None."""
        return self._peer_closed_at

    def _check(self, *, receiving: bool = False) -> None:
        if self._broken:
            raise self._broken
        if self._peer_closed_at is not None and not receiving:  # what it sent before may still be on its way
            raise PeerLost("the other side has closed the connection")

    def tell(self, message: protocol.ProtocolMessage) -> None:
        """Send a control message. Raises PeerLost."""
        with self._sending:
            write_frame(self._sock, protocol.encode(message))

    def break_(self, error: TransportError) -> None:
        """Make the connection unusable, and end all waiting, here and on the GPU."""
        with self._breaking:  # not _lock: a `send` that waits for the other side to take messages holds that
            if self._broken is None:
                self._broken = error
                for channel in self._channels:
                    channel.abandon()
                self._hang_up()
        with self._lock:
            self._offered.notify_all()

    def _hang_up(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # it is down already
            return

    def _listen(self) -> None:
        """The control thread: one message after another, until the other side is done or gone."""
        try:
            while True:
                message = protocol.decode(read_frame(self._sock))
                if isinstance(message, protocol.Bye):
                    self._peer_closed_at = time.monotonic()
                    return
                with self._lock:
                    self._take(message)
        except TransportError as error:
            self.break_(error)

    def _take(self, message: protocol.ProtocolMessage) -> None:
        if isinstance(message, protocol.Region):
            self._offers.append(message)
            self._offered.notify_all()
        elif isinstance(message, protocol.WindowOffer):
            self._windows.append(message)
            self._offered.notify_all()
        elif isinstance(message, protocol.MemoryRequest):
            self._serve(message)
        elif isinstance(message, (protocol.RequestGranted, protocol.RequestRefused, protocol.RequestDone)):
            asked = self._requests.get(message.number)
            if asked is None:
                raise TransportError(f"an answer to request {message.number}, which was not made")
            asked.take(message)
            if not asked.open:
                del self._requests[message.number]
        else:
            raise TransportError(f"{type(message).__name__} at the wrong time")

    def _serve(self, request: protocol.MemoryRequest) -> None:
        """Begin our half of what the other side asks for, in the order of asking."""
        if why := self._objection(request):
            self.tell(protocol.RequestRefused(request.number, why))
            return
        part = self._exposed[request.token][0].part(request.offset, request.size_bytes)
        channel = self._channels[THEIRS]
        if request.write:
            operation = channel.receive(part, None)
            done = Transfer(self, operation, part, received=True)
            self._served.submit(self._report, request.number, done)
        else:
            channel.transmit(part, None, None)
        self.tell(protocol.RequestGranted(request.number))

    def _objection(self, request: protocol.MemoryRequest) -> str:
        if not 0 <= request.token < len(self._exposed):
            return f"there is no region {request.token}"
        region = self._exposed[request.token][1]
        if not (region.writable if request.write else region.readable):
            return f"region {request.token} is not {'writable' if request.write else 'readable'}"
        if (
            request.offset < 0
            or request.size_bytes < 0
            or request.offset + request.size_bytes > region.size_bytes
        ):
            return (
                f"{request.size_bytes} bytes at {request.offset} do not fit into {region.size_bytes} bytes"
            )
        return ""

    def _report(self, number: int, arrival: Transfer) -> None:
        try:
            arrival.wait()
            self.tell(protocol.RequestDone(number, ""))
        except TransportError as error:
            if self._broken is None:
                self.tell(protocol.RequestDone(number, str(error)))

    def close(self) -> None:
        """Say goodbye and give everything back. What was sent and waited for arrives; what was not
        waited for may not. May be called twice.
        """
        if self._broken is None:
            try:
                self.tell(protocol.Bye())
            except TransportError as error:
                self.break_(error)
            self._broken = self._broken or PeerLost("this side has closed the connection")
        self._hang_up()
        if threading.current_thread() is not self._reader:
            self._reader.join()
        for channel in self._channels:
            channel.close()
        self._served.shutdown(wait=True)
        if self._endpoint:
            self._endpoint.close()
        self._channels, self._endpoint = (), None
        self._sock.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _settled(thing: Any, stream: int | None) -> Buffer:
    """The memory, after what a GPU writes there in place: no copy waits for that on the stream."""
    if isinstance(thing, MappedMemory):
        thing.settle(stream)
    what = buffer(thing)
    _refuse_graph(what, stream)
    return what


def _writable(thing: Any, stream: int | None) -> Buffer:
    """The memory that something is to come into."""
    into = buffer(thing, writable=True)
    _refuse_graph(into, stream)
    return into


def _refuse_graph(what: Buffer, stream: int | None) -> None:
    """Raise TransportError for a stream that records a CUDA graph: what is queued there does not run."""
    if stream and what.device is not None:
        from gdrkit.transport.native.cuda import cuda

        status = ctypes.c_int()
        cuda().call("cuStreamIsCapturing", stream, ctypes.byref(status))
        if status.value:
            raise TransportError("the stream records a CUDA graph: a message cannot be part of one")
