"""How two processes find each other, prove the key, and agree on the best path that both can take."""

from __future__ import annotations

import hashlib
import socket
import time
from types import TracebackType
from typing import TypeVar

from gdrkit.transport import protocol
from gdrkit.transport.connection import Connection
from gdrkit.transport.errors import (
    AuthenticationFailed,
    PathUnavailable,
    PeerLost,
    TimedOut,
    TransportError,
)
from gdrkit.transport.handshake import exactly, prove, read_frame, write_frame
from gdrkit.transport.negotiation import LINES, LocalSide, PreparedPath, check_paths, possible
from gdrkit.transport.path_names import PATHS

_Wanted = TypeVar("_Wanted", bound=protocol.ProtocolMessage)
_STRANGER, _IDENTITY_BYTES = bytes(16), 16
_HANDSHAKE_SECONDS = 5.0  # what a stranger may cost a listener
_KEEPALIVE = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 2, socket.TCP_KEEPCNT: 3}
"""A machine that dies without a word is noticed after 5 + 2 * 3 s: tcp(7)."""


class Listener:
    """A socket on the address that was given, and no other. `address` is (host, port)."""

    def __init__(self, host: str, port: int, key: bytes, side: LocalSide) -> None:
        family, kind, number, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if place[0] in ("0.0.0.0", "::"):
            raise TransportError("give the address to listen on: all of them at once is refused")
        self._key, self._side = key, side
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
            except PathUnavailable:
                raise
            except TransportError as error:
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
        mine = self._side.hello()
        write_frame(sock, protocol.encode(mine))
        if theirs.version != mine.version:
            raise PeerLost(f"the other side speaks version {theirs.version} of this, not {mine.version}")
        considered: list[str] = []
        for path in self._side.paths:
            try:
                possible(path, mine, theirs)
                prepared = PreparedPath(path, self._side)
            except PathUnavailable as error:
                considered.append(f"{path}: {error}")
                continue
            try:
                wires = self._propose(prepared, sock, secret, deadline)
            except TransportError as error:
                prepared.give_back()
                if not isinstance(error, PathUnavailable):
                    raise
                considered.append(f"{path}: {error}")
                continue
            channels = prepared.channels(wires, listening=True)
            return Connection(
                sock, channels, tuple(considered), prepared.endpoint, listening=True, gpu=self._side.gpu
            )
        write_frame(sock, protocol.encode(protocol.Proposal("")))
        sock.close()
        raise PathUnavailable("; ".join(considered) or "no path was allowed")

    def _propose(
        self, prepared: PreparedPath, sock: socket.socket, secret: bytes, deadline: float
    ) -> list[socket.socket]:
        """Agree on one path; its sockets, if it takes any. Raises PathUnavailable."""
        prepared.make_rings()
        names = tuple(ring.path for ring in prepared.rings)
        proposal = protocol.Proposal(prepared.path, names, prepared.ends())
        write_frame(sock, protocol.encode(proposal))
        answer = _expect(sock, protocol.ProposalAnswer)
        if answer.refused:
            raise PathUnavailable(answer.refused)
        prepared.connect(answer.ends)
        return self._gather(secret, deadline) if prepared.needs_sockets else []

    def _gather(self, secret: bytes, deadline: float) -> list[socket.socket]:
        """The data sockets of a session; each proves the session's secret."""
        wires: dict[int, socket.socket] = {}
        while len(wires) < LINES:
            identity, sock = self._next(deadline)
            try:
                if identity != _identity(secret):
                    raise AuthenticationFailed("not of this session")
                prove(sock, secret, "listen", b"data")
                wires[exactly(sock, 1)[0] % LINES] = sock
            except TransportError:
                sock.close()
                self.turned_away += 1
        return [wires[index] for index in range(LINES)]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def listen(
    host: str,
    port: int = 0,
    *,
    key: bytes,
    gpu: int | None = None,
    device: str | None = None,
    gid_index: int | None = None,
    paths: tuple[str, ...] = PATHS,
) -> Listener:
    """Wait for others on one address of this machine.

    `gpu` is the CUDA ordinal whose memory will be moved, `device` an RDMA device ("mlx5_0" or
    "mlx5_0:1"); `paths` are those allowed, best first. Raises TransportError for an address that means
    all addresses, else OSError.
    """
    check_paths(paths)
    return Listener(host, port, key, LocalSide(gpu, device, gid_index, paths))


def connect(
    host: str,
    port: int,
    *,
    key: bytes,
    gpu: int | None = None,
    device: str | None = None,
    gid_index: int | None = None,
    paths: tuple[str, ...] = PATHS,
    timeout: float = 30,
) -> Connection:
    """Connect to a listener. Raises AuthenticationFailed, TimedOut, PeerLost; PathUnavailable with every
    path's reason where none can be had.
    """
    check_paths(paths)
    side = LocalSide(gpu, device, gid_index, paths)
    sock = _dial(host, port, timeout)
    try:
        sock.sendall(_STRANGER)
        secret = prove(sock, key, "connect")
        mine = side.hello()
        write_frame(sock, protocol.encode(mine))
        theirs = _expect(sock, protocol.Hello)
        considered: list[str] = []
        while True:
            proposal = _expect(sock, protocol.Proposal)
            if not proposal.path:
                raise PathUnavailable("; ".join(considered) or "the two sides allow no path in common")
            try:
                prepared = _answer(proposal, side, mine, theirs)
            except PathUnavailable as error:
                considered.append(f"{proposal.path}: {error}")
                write_frame(sock, protocol.encode(protocol.ProposalAnswer(str(error))))
                continue
            write_frame(sock, protocol.encode(protocol.ProposalAnswer(ends=prepared.ends())))
            wires: list[socket.socket] = []
            if prepared.needs_sockets:
                wires = [_bind(host, port, secret, index, timeout) for index in range(LINES)]
            channels = prepared.channels(wires, listening=False)
            return Connection(sock, channels, tuple(considered), prepared.endpoint, gpu=gpu)
    except (TransportError, OSError) as error:
        sock.close()
        if isinstance(error, TransportError):
            raise
        raise PeerLost(f"the other side is no gdrkit transport: {error}") from None


def _answer(
    proposal: protocol.Proposal, side: LocalSide, mine: protocol.Hello, theirs: protocol.Hello
) -> PreparedPath:
    """The connector's half of a path. Raises PathUnavailable."""
    possible(proposal.path, mine, theirs)
    prepared = PreparedPath(proposal.path, side)
    try:
        prepared.open_rings(proposal.rings)
        prepared.connect(proposal.ends)
    except PathUnavailable:
        prepared.give_back()
        raise
    return prepared


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


def _expect(sock: socket.socket, kind: type[_Wanted]) -> _Wanted:
    message = protocol.decode(read_frame(sock))
    if not isinstance(message, kind):
        raise PeerLost(f"the other side said {type(message).__name__}, not {kind.__name__}")
    return message
