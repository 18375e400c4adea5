"""Rendezvous: two processes connect, authenticate, and negotiate the best path that both can use.

Every time limit is absolute: it ends at the given time, however slowly the other side sends.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from gdrkit.transport import protocol
from gdrkit.transport.connection import Connection
from gdrkit.transport.errors import PathUnavailable, PeerLost, TimedOut, TransportError
from gdrkit.transport.handshake import (
    NEW_SESSION,
    authenticate,
    authentication,
    data_purpose,
    identity,
    send_all,
)
from gdrkit.transport.negotiation import LocalSide, PreparedPath, check_paths, check_possible
from gdrkit.transport.path_names import PATHS
from gdrkit.transport.reception import Arrival, Reception, is_unspecified, tune
from gdrkit.transport.sealed_socket import SealedSocket

_Wanted = TypeVar("_Wanted", bound=protocol.ProtocolMessage)
_BACKLOG = 128  # connections that the kernel keeps between two calls of `accept`


class Listener:
    """A listening socket on exactly one address. `address` is (host, port), `rejected` counts the
    connections that did not authenticate.
    """

    def __init__(self, host: str, port: int, key: bytes, side: LocalSide) -> None:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if is_unspecified(str(address[0])):
            raise TransportError(f"listening on all addresses is not allowed: {host}; give one address")
        self._side = side
        self._socket = socket.socket(family, kind, number)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(address)
            self._socket.listen(_BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self._reception = Reception(self._socket, key)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]

    @property
    def rejected(self) -> int:
        return self._reception.rejected

    def accept(self, timeout: float = 60) -> Connection:
        """A connection to the next peer that has the key. Raises TimedOut after `timeout` seconds, which
        gives the number of rejected connections.
        """
        deadline = time.monotonic() + timeout
        while True:
            arrival = self._reception.next(deadline, data=False)
            try:
                return self._negotiate(arrival, deadline)
            except PathUnavailable:
                arrival.sock.close()
                raise
            except TransportError as error:
                self._reception.reject(arrival.sock, str(error))
            finally:
                self._reception.expect_data(None)

    def _negotiate(self, arrival: Arrival, deadline: float) -> Connection:
        sealed = SealedSocket(arrival.sock, arrival.secret, "listen", deadline)
        theirs = _expect(sealed, protocol.Hello)
        mine = self._side.hello()
        sealed.send_message(protocol.encode(mine))
        considered: list[str] = []
        for path in self._side.paths:
            try:
                check_possible(path, mine, theirs)
                with _released(PreparedPath(path, self._side, mine, theirs)) as prepared:
                    self._propose(prepared, sealed, arrival.secret, deadline)
            except PathUnavailable as error:
                considered.append(f"{path}: {error}")
                continue
            return Connection(sealed, prepared, considered, listening=True)
        sealed.send_message(protocol.encode(protocol.Proposal("")))
        raise PathUnavailable("; ".join(considered) or "no path was allowed")

    def _propose(self, prepared: PreparedPath, sealed: SealedSocket, secret: bytes, deadline: float) -> None:
        """Propose one path, and accept its sockets, if it needs any. Raises PathUnavailable."""
        prepared.make_rings()
        names = tuple(ring.path for ring in prepared.rings)
        self._reception.expect_data(secret, prepared.needed_sockets)
        sealed.send_message(protocol.encode(protocol.Proposal(prepared.path, names, prepared.ends())))
        answer = _expect(sealed, protocol.ProposalAnswer)
        if answer.refused:
            raise PathUnavailable(answer.refused)
        prepared.connect(answer.ends)
        while len(prepared.sockets) < prepared.needed_sockets:
            index, sock, secret = self._reception.next(deadline, data=True, control=sealed.sock)
            assert index is not None
            if index in prepared.sockets:
                self._reception.reject(sock, "a data connection that exists already")
            else:
                prepared.sockets[index] = SealedSocket(sock, secret, "listen")

    def close(self) -> None:
        self._reception.close()
        self._socket.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
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
    authenticate_data: bool = False,
) -> Listener:
    """Listen for peers on one address of this machine.

    `gpu` is the CUDA ordinal of the GPU whose memory will be sent or received, `device` an RDMA device
    ("mlx5_0" or "mlx5_0:1"); `paths` are the allowed paths, best first. With `authenticate_data` on either
    side, data on sockets carries a MAC, and the path verbs is not used. Raises TransportError for a wildcard
    address, and OSError.
    """
    check_paths(paths)
    return Listener(host, port, key, LocalSide(gpu, device, gid_index, paths, authenticate_data))


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
    authenticate_data: bool = False,
) -> Connection:
    """Connect to a listener within `timeout` seconds. The other arguments are as in `listen`. Raises
    AuthenticationFailed, TimedOut, PeerLost, and PathUnavailable with the reason for each path if no path is
    available.
    """
    check_paths(paths)
    side = LocalSide(gpu, device, gid_index, paths, authenticate_data)
    deadline = time.monotonic() + timeout
    sock = _dial(host, port, deadline)
    try:
        send_all(sock, NEW_SESSION, deadline)
        secret = authenticate(sock, authentication(key, "connect"), deadline)
        sealed = SealedSocket(sock, secret, "connect", deadline)
        return _agreed(sealed, side, (host, port), secret, deadline)
    except (TransportError, OSError) as error:
        sock.close()
        if isinstance(error, TransportError):
            raise
        raise PeerLost(f"the other side is not a gdrkit transport: {error}") from None


def _agreed(
    sealed: SealedSocket, side: LocalSide, address: tuple[str, int], secret: bytes, deadline: float
) -> Connection:
    """The connector's side of the negotiation. Raises TransportError."""
    mine = side.hello()
    sealed.send_message(protocol.encode(mine))
    theirs = _expect(sealed, protocol.Hello)
    considered: list[str] = []
    while True:
        proposal = _expect(sealed, protocol.Proposal)
        if not proposal.path:
            raise PathUnavailable("; ".join(considered) or "the two sides have no allowed path in common")
        try:
            check_possible(proposal.path, mine, theirs)
            with _released(PreparedPath(proposal.path, side, mine, theirs)) as prepared:
                prepared.open_rings(proposal.rings)
                prepared.connect(proposal.ends)
        except PathUnavailable as error:
            considered.append(f"{proposal.path}: {error}")
            sealed.send_message(protocol.encode(protocol.ProposalAnswer(str(error))))
            continue
        with _released(prepared):
            sealed.send_message(protocol.encode(protocol.ProposalAnswer(ends=prepared.ends())))
            for index in range(prepared.needed_sockets):
                prepared.sockets[index] = _bind(address, secret, index, deadline)
        return Connection(sealed, prepared, considered, listening=False)


@contextmanager
def _released(prepared: PreparedPath) -> Iterator[PreparedPath]:
    """A path whose resources are released if the block fails."""
    try:
        yield prepared
    except TransportError:
        prepared.release()
        raise


def _bind(address: tuple[str, int], secret: bytes, index: int, deadline: float) -> SealedSocket:
    sock = _dial(*address, deadline, listens=True)
    try:
        send_all(sock, identity(secret, index), deadline)
        steps = authentication(secret, "connect", data_purpose(index))
        return SealedSocket(sock, authenticate(sock, steps, deadline), "connect")
    except TransportError:
        sock.close()
        raise


def _dial(host: str, port: int, deadline: float, *, listens: bool = False) -> socket.socket:
    """A connected socket; retries while the port is not open, unless the other side `listens` already.
    Raises TimedOut, PeerLost.
    """
    while (left := deadline - time.monotonic()) > 0:
        try:
            sock = socket.create_connection((host, port), timeout=left)
        except OSError as error:
            if listens or not isinstance(error, ConnectionRefusedError):
                raise PeerLost(f"{host}:{port}: {error.strerror or error}") from None
            time.sleep(0.05)
        else:
            tune(sock)
            return sock
    raise TimedOut(f"timed out: no listener on {host}:{port}")


def _expect(sealed: SealedSocket, kind: type[_Wanted]) -> _Wanted:
    message = protocol.decode(sealed.receive_message())
    if not isinstance(message, kind):
        raise PeerLost(f"the other side sent {type(message).__name__} where {kind.__name__} was expected")
    return message
