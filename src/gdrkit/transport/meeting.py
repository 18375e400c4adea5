"""How two processes find each other, prove the key, and agree on the best path that both can take."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

import msgspec

from gdrkit.transport import protocol
from gdrkit.transport.connection import Connection
from gdrkit.transport.errors import (
    AuthenticationFailed,
    PathUnavailable,
    PeerLost,
    TimedOut,
    TransportError,
)  # fmt: skip
from gdrkit.transport.handshake import exactly, prove, read_frame, write_frame
from gdrkit.transport.operation import Channel
from gdrkit.transport.ring import SLOT_BYTES, Ring
from gdrkit.transport.shared import SharedChannel
from gdrkit.transport.wires import PeerChannel, TcpChannel, WireChannel

PATHS = ("peer", "shared", "tcp")
"""Best first. `peer` is taken only where both sides named a GPU."""
_Wanted = TypeVar("_Wanted", bound=protocol.Message)
_STRANGER, _IDENTITY_BYTES = bytes(16), 16
_HANDSHAKE_SECONDS = 5.0  # what a stranger may cost a listener
_WIRES = 6  # three channels, two directions each
_KEEPALIVE = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 2, socket.TCP_KEEPCNT: 3}
"""A machine that dies without a word is noticed after 5 + 2 * 3 s: tcp(7)."""
_WIRE_PATHS: dict[str, Callable[[socket.socket, socket.socket], WireChannel]] = {
    "tcp": TcpChannel,
    "peer": PeerChannel,
}


class Listener:
    """A socket on the address that was given, and no other. `address` is (host, port)."""

    def __init__(self, host: str, port: int, key: bytes, gpu: int | None, paths: tuple[str, ...]) -> None:
        family, kind, number, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if place[0] in ("0.0.0.0", "::"):
            raise TransportError("give the address to listen on: all of them at once is refused")
        self._key, self._gpu, self._paths = key, gpu, paths
        self._socket = socket.socket(family, kind, number)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(place)
        self._socket.listen(16)
        self._waiting: list[tuple[bytes, socket.socket]] = []
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self.turned_away = 0

    def accept(self, timeout: float = 60) -> Connection:
        """The next process that holds the key. Raises TimedOut, which tells how many others were turned
        away.
        """
        deadline, last = time.monotonic() + timeout, ""
        while True:
            identity, sock = self._next(deadline, last)
            try:
                if identity != _STRANGER:
                    raise AuthenticationFailed("a connection to a session that is not open")
                sock.settimeout(_HANDSHAKE_SECONDS)
                secret = prove(sock, self._key, "listen")
                sock.settimeout(max(1.0, deadline - time.monotonic()))
                return self._welcome(sock, secret, deadline)
            except (AuthenticationFailed, PeerLost, TimedOut, msgspec.DecodeError) as error:
                sock.close()
                self.turned_away += 1
                last = str(error)

    def _next(self, deadline: float, last: str = "") -> tuple[bytes, socket.socket]:
        """The next socket and the identity that it names."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                others = f"; {self.turned_away} turned away, the last: {last}" if self.turned_away else ""
                raise TimedOut(f"nobody came who holds the key{others}")
            self._socket.settimeout(left)
            try:
                sock, _ = self._socket.accept()
            except TimeoutError:
                continue
            sock.settimeout(_HANDSHAKE_SECONDS)
            try:
                return exactly(sock, _IDENTITY_BYTES), sock
            except TransportError:
                sock.close()
                self.turned_away += 1

    def _welcome(self, sock: socket.socket, secret: bytes, deadline: float) -> Connection:
        theirs = _expect(sock, protocol.Hello)
        mine = _hello(self._gpu, self._paths)
        write_frame(sock, protocol.encode(mine))
        if theirs.version != mine.version:
            raise PeerLost(f"the other side speaks version {theirs.version} of this, not {mine.version}")
        considered: list[str] = []
        for path in self._paths:
            try:
                channels = self._try(path, sock, secret, mine, theirs, deadline)
            except PathUnavailable as error:
                considered.append(f"{path}: {error}")
                continue
            return Connection(sock, channels, tuple(considered))
        write_frame(sock, protocol.encode(protocol.Proposal("")))
        sock.close()
        raise PathUnavailable("; ".join(considered) or "no path was allowed")

    def _try(
        self,
        path: str,
        sock: socket.socket,
        secret: bytes,
        mine: protocol.Hello,
        theirs: protocol.Hello,
        deadline: float,
    ) -> tuple[Channel, Channel, Channel]:
        _possible(path, mine, theirs)
        rings: list[Ring] = []
        try:
            if path == "shared":
                rings = [Ring.create(slot_bytes=SLOT_BYTES // (1 if index < 2 else 4)) for index in range(6)]
            names = tuple(ring.path for ring in rings)
            write_frame(sock, protocol.encode(protocol.Proposal(path, names)))
            if refused := _expect(sock, protocol.Answer).refused:
                raise PathUnavailable(refused)
            if path != "shared":
                return _wired(path, self._gather(secret, deadline), listening=True)
        except TransportError:
            for ring in rings:
                ring.close()
            raise
        finally:
            for ring in rings:
                ring.unlink()
        return _shared(rings, listening=True)

    def _gather(self, secret: bytes, deadline: float) -> list[socket.socket]:
        """The data sockets of a session; each proves the session's secret."""
        wires: dict[int, socket.socket] = {}
        while len(wires) < _WIRES:
            identity, sock = self._next(deadline)
            try:
                if identity != _identity(secret):
                    raise AuthenticationFailed("not of this session")
                prove(sock, secret, "listen", b"data")
                wires[exactly(sock, 1)[0] % _WIRES] = sock
            except TransportError:
                sock.close()
                self.turned_away += 1
        return [wires[index] for index in range(_WIRES)]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def listen(
    host: str, port: int = 0, *, key: bytes, gpu: int | None = None, paths: tuple[str, ...] = PATHS
) -> Listener:
    """Wait for others on one address of this machine. `gpu` is the CUDA ordinal whose memory will be
    moved; `paths` are those allowed, best first. Raises TransportError for an address that means all
    addresses, OSError otherwise.
    """
    _check_paths(paths)
    return Listener(host, port, key, gpu, paths)


def connect(
    host: str,
    port: int,
    *,
    key: bytes,
    gpu: int | None = None,
    paths: tuple[str, ...] = PATHS,
    timeout: float = 30,
) -> Connection:
    """Connect to a listener. Raises AuthenticationFailed, TimedOut, PeerLost; PathUnavailable with every
    path's reason where none can be had.
    """
    _check_paths(paths)
    sock = _dial(host, port, timeout)
    try:
        sock.sendall(_STRANGER)
        secret = prove(sock, key, "connect")
        mine = _hello(gpu, paths)
        write_frame(sock, protocol.encode(mine))
        theirs = _expect(sock, protocol.Hello)
        considered: list[str] = []
        while True:
            proposal = _expect(sock, protocol.Proposal)
            if not proposal.path:
                raise PathUnavailable("; ".join(considered) or "the two sides allow no path in common")
            try:
                channels = _accept(proposal, mine, theirs)
            except PathUnavailable as error:
                considered.append(f"{proposal.path}: {error}")
                write_frame(sock, protocol.encode(protocol.Answer(str(error) or "no")))
                continue
            write_frame(sock, protocol.encode(protocol.Answer()))
            if channels is None:
                wires = [_bind(host, port, secret, index, timeout) for index in range(_WIRES)]
                channels = _wired(proposal.path, wires, listening=False)
            return Connection(sock, channels, tuple(considered))
    except (TransportError, msgspec.DecodeError, OSError) as error:
        sock.close()
        if isinstance(error, TransportError):
            raise
        raise PeerLost(f"the other side is no gdrkit transport: {error}") from None


def _accept(
    proposal: protocol.Proposal, mine: protocol.Hello, theirs: protocol.Hello
) -> tuple[Channel, Channel, Channel] | None:
    """The connector's half of a path; None where it takes sockets that are yet to be opened."""
    _possible(proposal.path, mine, theirs)
    if proposal.path != "shared":
        return None
    if len(proposal.rings) != _WIRES:
        raise PathUnavailable("the other side named no rings")
    rings: list[Ring] = []
    try:
        for name in proposal.rings:
            rings.append(Ring.open(name))
    except PathUnavailable:
        for ring in rings:
            ring.close()
        raise
    return _shared(rings, listening=False)


def _possible(path: str, mine: protocol.Hello, theirs: protocol.Hello) -> None:
    """Raises PathUnavailable where what both sides said rules a path out."""
    if path not in mine.paths or path not in theirs.paths:
        raise PathUnavailable("not allowed on both sides")
    if path in ("peer", "shared") and mine.boot_id != theirs.boot_id:
        raise PathUnavailable("the two processes are on different machines")
    if path == "peer":
        if not mine.gpu or not theirs.gpu:
            raise PathUnavailable("not both sides named a GPU")
        _reaches(mine.gpu, theirs.gpu)


def _reaches(mine: str, theirs: str) -> None:
    from gdrkit.native.cuda import CudaError, NoCuda, cuda

    try:
        driver = cuda()
        here, there = (driver.number("cuDeviceGetByPCIBusId", gpu.encode()) for gpu in (mine, theirs))
        if here != there and not driver.number("cuDeviceCanAccessPeer", here, there):
            raise PathUnavailable(f"{mine} cannot reach the memory of {theirs}")
    except (NoCuda, CudaError) as error:
        raise PathUnavailable(f"{theirs} is not visible here: {error}") from None


def _shared(rings: list[Ring], *, listening: bool) -> tuple[Channel, Channel, Channel]:
    """Rings 0, 2, 4 lead from the listener, 1, 3, 5 to it; 2 and 3 are for the listener's requests."""
    pairs = [(rings[index], rings[index + 1]) for index in (0, 2, 4)]
    if listening:
        return SharedChannel(*pairs[0]), SharedChannel(*pairs[1]), SharedChannel(*pairs[2])
    turned = [(into, out) for out, into in pairs]
    return SharedChannel(*turned[0]), SharedChannel(*turned[2]), SharedChannel(*turned[1])


def _wired(path: str, wires: list[socket.socket], *, listening: bool) -> tuple[Channel, Channel, Channel]:
    """As `_shared`, of sockets."""
    make = _WIRE_PATHS[path]
    pairs = [(wires[index], wires[index + 1]) for index in (0, 2, 4)]
    if listening:
        return make(*pairs[0]), make(*pairs[1]), make(*pairs[2])
    turned = [(into, out) for out, into in pairs]
    return make(*turned[0]), make(*turned[2]), make(*turned[1])


def _bind(host: str, port: int, secret: bytes, index: int, timeout: float) -> socket.socket:
    sock = _dial(host, port, timeout)
    sock.sendall(_identity(secret))
    prove(sock, secret, "connect", b"data")
    sock.sendall(bytes([index]))
    return sock


def _dial(host: str, port: int, timeout: float) -> socket.socket:
    """A connection, tried again while nobody listens yet. Raises TimedOut."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            sock = socket.create_connection((host, port), timeout=timeout)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise TimedOut(f"nobody listens on {host}:{port}") from None
            time.sleep(0.05)
        except OSError as error:
            raise PeerLost(f"{host}:{port}: {error.strerror or error}") from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock


def _identity(secret: bytes) -> bytes:
    return hashlib.sha256(b"gdrkit session" + secret).digest()[:_IDENTITY_BYTES]


def _hello(gpu: int | None, paths: tuple[str, ...]) -> protocol.Hello:
    address = ""
    if gpu is not None:
        from gdrkit.native.cuda import cuda

        address = cuda().address(gpu)
    return protocol.Hello(protocol.VERSION, _boot_id(), address, paths)


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # a sandbox: nothing tells that two processes share a kernel, so none do
        return os.urandom(16).hex()


def _expect(sock: socket.socket, kind: type[_Wanted]) -> _Wanted:
    message = protocol.decode(read_frame(sock))
    if not isinstance(message, kind):
        raise PeerLost(f"the other side said {type(message).__name__}, not {kind.__name__}")
    return message


def _check_paths(paths: tuple[str, ...]) -> None:
    if unknown := [path for path in paths if path not in PATHS]:
        raise TransportError(f"no such path: {unknown[0]} (of {', '.join(PATHS)})")
