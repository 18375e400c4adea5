"""A connection between two processes: messages (send and recv) and one-sided access (write and read)."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from gdrkit.transport import protocol
from gdrkit.transport.buffers import Buffer, buffer, current_stream
from gdrkit.transport.errors import PeerLost, TimedOut, TransportError
from gdrkit.transport.mapped import MappedMemory
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.negotiation import PreparedPath
from gdrkit.transport.operation import Channel
from gdrkit.transport.rdma import RdmaChannel
from gdrkit.transport.registration import RegistrationRefusal
from gdrkit.transport.sealed_socket import SealedSocket
from gdrkit.transport.transfer import OneSided, Transfer
from gdrkit.transport.window import Window, open_window

CURRENT = -1
"""In place of a stream: the one that is current in the memory's library, as `current_stream` says."""
MESSAGES, OURS, THEIRS = 0, 1, 2
"""The three channels: messages, requests made by this side, requests made by the other side."""

_MOST_OFFERS = 1024
"""Regions and windows of the other side that `exchange` and `window` have not taken yet."""
_MOST_WRITES = 16_384
"""Write requests of the other side whose data has not arrived: a peer that asks without end and sends
nothing would fill the memory."""
_CAPTURE_IMPLICIT = 906
"""CUresult for the default stream while another one captures a graph: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT."""
_SEND_TIMEOUT = struct.pack("ll", 5, 0)
"""How long a peer that is sent a message may read nothing: struct timeval, SO_SNDTIMEO of socket(7)."""

_Offer = TypeVar("_Offer")


class Connection:
    """A connection between two processes over one path. `connect` and `Listener.accept` return it; close
    it, or use `with`.

    `path` is the path in use. `considered` lists the better paths that are not available, each with the
    reason. Methods may be called from several threads. Messages arrive in the order in which they were
    sent.
    """

    def __init__(
        self,
        sock: SealedSocket,
        prepared: PreparedPath,
        considered: Sequence[str],
        *,
        listening: bool,
    ) -> None:
        self.path, self.considered = prepared.path, tuple(considered)
        self._sock, self._endpoint = sock, prepared.endpoint
        self._listening, self._gpu, self._anonymous = listening, prepared.gpu, prepared.anonymous
        self._channels: tuple[Channel, ...] = prepared.channels(listening=listening)
        sock.deadline = None
        sock.sock.settimeout(None)
        sock.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_TIMEOUT)
        self._broken: TransportError | None = None
        self._peer_closed_at: float | None = None
        self._lock, self._sending = threading.RLock(), threading.Lock()
        self._breaking = threading.RLock()
        self._exposed: list[tuple[Buffer, protocol.Region]] = []
        self._inbox: dict[type[Any], list[Any]] = {protocol.Region: [], protocol.WindowOffer: []}
        self._offered = threading.Condition(self._lock)
        self._requests: dict[int, OneSided] = {}
        self._numbers = 0
        self.refusals: tuple[RegistrationRefusal, ...] = ()
        self._writes_asked = self._writes_done = 0  # each is changed by one thread alone
        self._served = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gdrkit-serve")
        self._reader = threading.Thread(target=self._listen, name="gdrkit-control", daemon=True)
        self._reader.start()

    def send(self, thing: Any, *, stream: int | None = CURRENT, integrity: bool = False) -> Transfer:
        """Start sending memory; `buffer` lists what is accepted. Returns at once, with two exceptions on the
        path `shared`: it waits while 64 messages are in flight, and while messages of the other kind of
        memory (host or GPU) are in flight.

        GPU memory is sent after the work that is queued on `stream` now: by default the stream that is
        current in PyTorch or CuPy, else a CUstream as an int (0 is the default stream). Work queued on
        `stream` later waits until the memory may be overwritten. With None the memory is sent at once,
        without stream order: first wait for all work that writes to it. With `integrity` the CRC-32 is sent
        too, and the receiver's `wait` raises IntegrityFailed if the bytes differ. The CPU reads the memory
        for that, which is slow. Raises TransportError if the connection is broken.
        """
        what, stream = _memory(thing, stream)
        crc = self._crc(what, stream) if integrity else None
        with self._lock:
            self._check()
            return Transfer(self, self._channels[MESSAGES].transmit(what, stream, crc), what, received=False)

    def recv(self, thing: Any, *, stream: int | None = CURRENT) -> Transfer:
        """Start receiving a message of exactly this memory's size. As in `send`, work queued on `stream`
        later sees the message. With None nothing may access the memory before `wait` returns, and a large
        message arrives a little sooner on the path `shared`.
        """
        into, stream = _memory(thing, stream, writable=True)
        with self._lock:
            self._check(receiving=True)
            return Transfer(self, self._channels[MESSAGES].receive(into, stream), into, received=True)

    def exchange(
        self, thing: Any, *, readable: bool = True, writable: bool = True, timeout: float = 30
    ) -> protocol.Region:
        """Expose memory to the other side, and return the region that the other side exposed. Both sides
        call this.

        The memory stays exposed until the connection closes. Raises TimedOut, PeerLost.
        """
        what = buffer(thing, writable=writable)
        with self._lock:
            self._check()
            mine = protocol.Region(len(self._exposed), what.size_bytes, readable, writable)
            if self._endpoint and readable and writable:  # an rkey allows both reads and writes
                found = self._endpoint.keep(what)
                if found.region:
                    mine = mine._replace(address=what.address, rkey=found.region.rkey)
            self._exposed.append((what, mine))
            self.send_control(mine)
            return self._next_of(protocol.Region, timeout, "did not call exchange")

    def window(self, size_bytes: int, *, timeout: float = 30) -> Window:
        """Memory that both processes map, and that is mapped for the GPU of each side that named one. Both
        sides call this with the same size. GPU kernels of both processes read and write the same memory, in
        place. Only on the path `shared`. `Window` describes how to order the two sides. Raises
        TransportError, PeerLost.
        """
        if size_bytes <= 0:
            raise TransportError(f"not a valid size: {size_bytes} bytes")
        with self._lock:
            self._check()
            if self.path != "shared":
                raise TransportError(f"a window needs the path shared; this connection uses {self.path}")
            return open_window(
                size_bytes,
                self._gpu,
                creates=self._listening,
                anonymous=self._anonymous,
                send=self.send_control,
                receive=lambda: self._next_of(protocol.WindowOffer, timeout, "did not call window"),
            )

    def _next_of(self, kind: type[_Offer], timeout: float, failing: str) -> _Offer:
        """The next message of a kind. Raises PeerLost. Holds the lock, except while it waits."""
        inbox: list[_Offer] = self._inbox[kind]
        if not self._offered.wait_for(lambda: inbox or self._broken, timeout):
            self.break_(PeerLost(f"the other side {failing} within {timeout} s"))
        if not inbox:
            self._check()
        return inbox.pop(0)

    def write(
        self,
        thing: Any,
        to: protocol.Region,
        offset: int = 0,
        *,
        stream: int | None = CURRENT,
        integrity: bool = False,
    ) -> Transfer:
        """Start writing memory into the other side's region; the other side does not have to call anything.
        The transfer is done when the bytes are in place. `wait` raises RemoteRefused for an access that the
        region does not allow.
        """
        what, stream = _memory(thing, stream)
        return self._ask(what, to, offset, True, stream, self._crc(what, stream) if integrity else None)

    def read(
        self, thing: Any, of: protocol.Region, offset: int = 0, *, stream: int | None = CURRENT
    ) -> Transfer:
        """Start reading from the other side's region into memory. As `write`."""
        into, stream = _memory(thing, stream, writable=True)
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
            pending = self._requests[self._numbers] = OneSided(
                lambda: channel.transmit(what, stream, crc) if write else channel.receive(what, stream),
                needs_done=write,
            )
            self.send_control(
                protocol.MemoryRequest(
                    self._numbers, write, region.token, offset, what.size_bytes, crc is not None
                )
            )
            return Transfer(self, pending, what, received=not write)

    def register(self, thing: Any) -> str:
        """Register memory once for all transfers of this connection, and return how: `dmabuf`, `peermem`,
        `host`, or `staged` for GPU memory that could not be registered (`refusals` has the reasons). The
        memory must not move; the connection keeps it alive. Only the path `verbs` registers memory.
        """
        what = buffer(thing)
        if self._endpoint is None:
            return "host" if what.device is None else self.path
        found = self._endpoint.keep(what)
        self.refusals = found.refusals
        return found.path

    def _crc(self, what: Buffer, stream: int | None) -> int:
        if what.device is not None and stream is not None:
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
        if self._peer_closed_at is not None and not receiving:  # messages it sent earlier may still arrive
            raise PeerLost("the other side has closed the connection")

    def send_control(self, message: protocol.ProtocolMessage) -> None:
        """Send a control message. Raises PeerLost, and TimedOut if the other side does not read."""
        try:
            with self._sending:
                self._sock.send_message(protocol.encode(message))
        except TimedOut as error:  # half a message may have been sent
            self.break_(error)
            raise

    def break_(self, error: TransportError) -> None:
        """Make the connection unusable, and end all waits, on the CPU and on the GPU."""
        with self._breaking:  # not _lock: a `send` holds it while it waits for the other side
            if self._broken is None:
                self._broken = error
                for channel in self._channels:
                    channel.abandon()
                self._sock.shut_down()
        with self._lock:
            self._offered.notify_all()

    def _listen(self) -> None:
        """The control thread: handle messages until the other side closes the connection or is lost."""
        try:
            while True:
                message = protocol.decode(self._sock.receive_message())
                if isinstance(message, protocol.Bye):
                    self._peer_closed_at = time.monotonic()
                    return
                if isinstance(message, protocol.MemoryRequest):
                    self._serve(message)  # without the lock: the answer waits for a peer that does not read
                else:
                    with self._lock:
                        self._take(message)
        except TransportError as error:
            self.break_(error)

    def _take(self, message: protocol.ProtocolMessage) -> None:
        if (inbox := self._inbox.get(type(message))) is not None:
            if len(inbox) == _MOST_OFFERS:
                raise TransportError(f"more than {_MOST_OFFERS} unsolicited offers")
            inbox.append(message)
            self._offered.notify_all()
        elif isinstance(message, (protocol.RequestGranted, protocol.RequestRefused, protocol.RequestDone)):
            pending = self._requests.get(message.number)
            if pending is None:
                raise TransportError(f"answer to unknown request {message.number}")
            pending.take(message)
            if not pending.open:
                del self._requests[message.number]
        else:
            raise TransportError(f"unexpected control message: {type(message).__name__}")

    def _serve(self, request: protocol.MemoryRequest) -> None:
        """Start our half of the other side's request; requests are served in order."""
        try:
            part = self._exposed_part(request)
        except TransportError as error:
            self.send_control(protocol.RequestRefused(request.number, str(error)))
            return
        channel = self._channels[THEIRS]
        if request.write:
            if self._writes_asked - self._writes_done == _MOST_WRITES:
                raise TransportError(f"more than {_MOST_WRITES} write requests without their data")
            self._writes_asked += 1
            operation = channel.receive(part, None)
            done = Transfer(self, operation, part, received=True)
            self._served.submit(self._report, request.number, done)
        else:
            channel.transmit(part, None, None)
        self.send_control(protocol.RequestGranted(request.number))

    def _exposed_part(self, request: protocol.MemoryRequest) -> Buffer:
        """The memory that the other side asks for. Raises TransportError if it may not access that."""
        if not 0 <= request.token < len(self._exposed):
            raise TransportError(f"no such region: {request.token}")
        what, region = self._exposed[request.token]
        if not (region.writable if request.write else region.readable):
            access = "writable" if request.write else "readable"
            raise TransportError(f"region {request.token} is not {access}")
        return what.part(request.offset, request.size_bytes)

    def _report(self, number: int, arrival: Transfer) -> None:
        try:
            arrival.wait()
            self._writes_done += 1
            self.send_control(protocol.RequestDone(number, ""))
        except TransportError as error:
            if self._broken is None:
                self.send_control(protocol.RequestDone(number, str(error)))

    def close(self) -> None:
        """Close the connection and release its resources. Messages that were sent and waited for arrive;
        others may be lost. May be called twice.
        """
        if self._broken is None:
            try:
                self.send_control(protocol.Bye())
            except TransportError as error:
                self.break_(error)
            self._broken = self._broken or PeerLost("this side has closed the connection")
        self._sock.shut_down()
        if threading.current_thread() is not self._reader:
            self._reader.join()
        for channel in self._channels:
            channel.close()
        self._served.shutdown(wait=True)
        if self._endpoint:
            self._endpoint.close()
        self._channels, self._endpoint = (), None
        self._sock.sock.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _memory(thing: Any, stream: int | None, *, writable: bool = False) -> tuple[Buffer, int | None]:
    """The memory of a message, and its stream. Waits for a GPU's writes to mapped memory that is sent: no
    copy on the stream does. Raises TransportError if the stream is capturing a CUDA graph, or waits for one
    that is: work queued there does not run.
    """
    if stream == CURRENT:
        stream = current_stream(thing)
    if isinstance(thing, MappedMemory) and not writable:
        thing.settle(stream)
    what = buffer(thing, writable=writable)
    if stream is not None and what.device is not None:
        status = ctypes.c_int()
        with cuda().on(what.device):
            result = cuda().function("cuStreamIsCapturing")(stream, ctypes.byref(status))
        if status.value or result == _CAPTURE_IMPLICIT:
            raise TransportError("the stream is capturing a CUDA graph; a message cannot be part of a graph")
        if result:
            raise cuda().error("cuStreamIsCapturing", result)
    return what, stream
