"""Rendezvous: two processes connect, authenticate, and negotiate the best path that both can use."""

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
from gdrkit.transport.handshake import authenticate, read_exactly, read_frame, write_frame
from gdrkit.transport.negotiation import DIRECTIONS, LocalSide, PreparedPath, check_paths, check_possible
from gdrkit.transport.path_names import PATHS

_Wanted = TypeVar("_Wanted", bound=protocol.ProtocolMessage)
_NEW_SESSION, _IDENTITY_BYTES = bytes(16), 16
_HANDSHAKE_SECONDS = 5.0  # how long an unauthenticated peer can block a listener
_KEEPALIVE = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 2, socket.TCP_KEEPCNT: 3}
"""A machine that dies silently is detected after 5 + 2 * 3 s: tcp(7)."""


class Listener:
    """A listening socket on exactly one address. `address` is (host, port), `rejected` counts the
    connections that did not authenticate.
    """

    def __init__(self, host: str, port: int, key: bytes, side: LocalSide) -> None:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if address[0] in ("0.0.0.0", "::"):
            raise TransportError(f"listening on all addresses is not allowed: {host}; give one address")
        self._key, self._side = key, side
        self._socket = socket.socket(family, kind, number)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(address)
        self._socket.listen(16)
        self._waiting: list[tuple[bytes, socket.socket]] = []
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self.rejected = 0

    def accept(self, timeout: float = 60) -> Connection:
        """A connection to the next peer that has the key. Raises TimedOut, which gives the number of
        rejected connections.
        """
        deadline, last = time.monotonic() + timeout, ""
        while True:
            identity, sock = self._next(deadline, last)
            try:
                if identity != _NEW_SESSION:
                    raise AuthenticationFailed("a data connection of an unknown session")
                sock.settimeout(_HANDSHAKE_SECONDS)
                secret = authenticate(sock, self._key, "listen")
                sock.settimeout(max(1.0, deadline - time.monotonic()))
                return self._negotiate(sock, secret, deadline)
            except PathUnavailable:
                raise
            except TransportError as error:
                sock.close()
                self.rejected += 1
                last = str(error)

    def _next(self, deadline: float, last: str = "") -> tuple[bytes, socket.socket]:
        """The next connection's session identity and socket."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"timed out: no authenticated peer{self._rejections(last)}")
            self._socket.settimeout(left)
            try:
                sock, _ = self._socket.accept()
            except TimeoutError:
                continue
            sock.settimeout(_HANDSHAKE_SECONDS)
            try:
                return read_exactly(sock, _IDENTITY_BYTES), sock
            except TransportError:
                sock.close()
                self.rejected += 1

    def _rejections(self, last: str) -> str:
        if not self.rejected:
            return ""
        connections = "connection" if self.rejected == 1 else "connections"
        reason = f", the last one: {last}" if last else ""
        return f" ({self.rejected} {connections} rejected{reason})"

    def _negotiate(self, sock: socket.socket, secret: bytes, deadline: float) -> Connection:
        theirs = _expect(sock, protocol.Hello)
        mine = self._side.hello()
        write_frame(sock, protocol.encode(mine))
        if theirs.version != mine.version:
            raise PeerLost(
                f"the other side uses protocol version {theirs.version}, this side version {mine.version}"
            )
        considered: list[str] = []
        for path in self._side.paths:
            try:
                check_possible(path, mine, theirs)
                prepared = PreparedPath(path, self._side)
            except PathUnavailable as error:
                considered.append(f"{path}: {error}")
                continue
            try:
                sockets = self._propose(prepared, sock, secret, deadline)
            except TransportError as error:
                prepared.release()
                if not isinstance(error, PathUnavailable):
                    raise
                considered.append(f"{path}: {error}")
                continue
            channels = prepared.channels(sockets, listening=True)
            return Connection(
                sock, channels, tuple(considered), prepared.endpoint, listening=True, gpu=self._side.gpu
            )
        write_frame(sock, protocol.encode(protocol.Proposal("")))
        sock.close()
        raise PathUnavailable("; ".join(considered) or "no path was allowed")

    def _propose(
        self, prepared: PreparedPath, sock: socket.socket, secret: bytes, deadline: float
    ) -> list[socket.socket]:
        """Propose one path, and return its sockets, if it needs any. Raises PathUnavailable."""
        prepared.make_rings()
        names = tuple(ring.path for ring in prepared.rings)
        proposal = protocol.Proposal(prepared.path, names, prepared.ends())
        write_frame(sock, protocol.encode(proposal))
        answer = _expect(sock, protocol.ProposalAnswer)
        if answer.refused:
            raise PathUnavailable(answer.refused)
        prepared.connect(answer.ends)
        return self._accept_data(secret, deadline) if prepared.needs_sockets else []

    def _accept_data(self, secret: bytes, deadline: float) -> list[socket.socket]:
        """The data sockets of a session; each authenticates with the session's secret."""
        sockets: dict[int, socket.socket] = {}
        while len(sockets) < DIRECTIONS:
            identity, sock = self._next(deadline)
            try:
                if identity != _identity(secret):
                    raise AuthenticationFailed("not a connection of this session")
                authenticate(sock, secret, "listen", b"data")
                sockets[read_exactly(sock, 1)[0] % DIRECTIONS] = sock
            except TransportError:
                sock.close()
                self.rejected += 1
        return [sockets[index] for index in range(DIRECTIONS)]

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
    """Listen for peers on one address of this machine.

    `gpu` is the CUDA ordinal of the GPU whose memory will be sent or received, `device` an RDMA device
    ("mlx5_0" or "mlx5_0:1"); `paths` are the allowed paths, best first. Raises TransportError for a wildcard
    address, and OSError.
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
    """Connect to a listener. Raises AuthenticationFailed, TimedOut, PeerLost, and PathUnavailable with the
    reason for each path if no path is available.
    """
    check_paths(paths)
    side = LocalSide(gpu, device, gid_index, paths)
    sock = _dial(host, port, timeout)
    try:
        sock.sendall(_NEW_SESSION)
        secret = authenticate(sock, key, "connect")
        mine = side.hello()
        write_frame(sock, protocol.encode(mine))
        theirs = _expect(sock, protocol.Hello)
        considered: list[str] = []
        while True:
            proposal = _expect(sock, protocol.Proposal)
            if not proposal.path:
                raise PathUnavailable(
                    "; ".join(considered) or "the two sides have no allowed path in common"
                )
            try:
                prepared = _answer(proposal, side, mine, theirs)
            except PathUnavailable as error:
                considered.append(f"{proposal.path}: {error}")
                write_frame(sock, protocol.encode(protocol.ProposalAnswer(str(error))))
                continue
            write_frame(sock, protocol.encode(protocol.ProposalAnswer(ends=prepared.ends())))
            sockets: list[socket.socket] = []
            if prepared.needs_sockets:
                sockets = [_bind(host, port, secret, index, timeout) for index in range(DIRECTIONS)]
            channels = prepared.channels(sockets, listening=False)
            return Connection(sock, channels, tuple(considered), prepared.endpoint, gpu=gpu)
    except (TransportError, OSError) as error:
        sock.close()
        if isinstance(error, TransportError):
            raise
        raise PeerLost(f"the other side is not a gdrkit transport: {error}") from None


def _answer(
    proposal: protocol.Proposal, side: LocalSide, mine: protocol.Hello, theirs: protocol.Hello
) -> PreparedPath:
    """The connector's half of a path. Raises PathUnavailable."""
    check_possible(proposal.path, mine, theirs)
    prepared = PreparedPath(proposal.path, side)
    try:
        prepared.open_rings(proposal.rings)
        prepared.connect(proposal.ends)
    except PathUnavailable:
        prepared.release()
        raise
    return prepared


def _bind(host: str, port: int, secret: bytes, index: int, timeout: float) -> socket.socket:
    sock = _dial(host, port, timeout)
    sock.sendall(_identity(secret))
    authenticate(sock, secret, "connect", b"data")
    sock.sendall(bytes([index]))
    return sock


def _dial(host: str, port: int, timeout: float) -> socket.socket:
    """A connected socket; retries while the port is not open yet. Raises TimedOut, PeerLost."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            sock = socket.create_connection((host, port), timeout=timeout)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise TimedOut(f"timed out: no listener on {host}:{port}") from None
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
        raise PeerLost(f"the other side sent {type(message).__name__} where {kind.__name__} was expected")
    return message
