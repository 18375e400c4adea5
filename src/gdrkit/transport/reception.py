"""A listener's handshakes, side by side, so that strangers cannot delay the peer that has the key.

Each handshake has an absolute deadline, and their number is bounded: overall, and for each source address.
Beyond a bound the oldest handshake ends, of the source that has most, so that a new peer is always heard.
"""

from __future__ import annotations

import errno
import ipaddress
import selectors
import socket
import time
from collections import Counter
from typing import Any, NamedTuple

from gdrkit.transport.errors import AuthenticationFailed, PeerLost, TimedOut, TransportError
from gdrkit.transport.handshake import (
    CONTROL,
    IDENTITY_BYTES,
    NEW_SESSION,
    Steps,
    authentication,
    data_purpose,
    identity,
)

HANDSHAKE_SECONDS = 5.0
MOST, MOST_PER_SOURCE = 128, 32
_IPV6_SITE = 64  # bits of an IPv6 address that belong to one site, which owns all addresses below: RFC 6177
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_KEEPALIVE = {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 2, socket.TCP_KEEPCNT: 3}
"""A machine that dies silently is detected after 5 + 2 * 3 s: tcp(7)."""


class Arrival(NamedTuple):
    """An authenticated connection. `channel` is the index of a session's data connection, or None."""

    channel: int | None
    sock: socket.socket
    secret: bytes


class _Pending:
    """A connection that has not authenticated yet."""

    def __init__(self, sock: socket.socket, source: str, steps: Steps) -> None:
        self.sock, self.source, self.steps = sock, source, steps
        self.expires = time.monotonic() + HANDSHAKE_SECONDS
        self.got = b""
        self.channel: int | None = None
        _, self.wanted = next(steps)


class Reception:
    """The connections of one listening socket until they have authenticated. `rejected` counts those that
    did not, `last` is why the last one did not. Used by one thread at a time.
    """

    def __init__(self, listening: socket.socket, key: bytes) -> None:
        self._listening, self._key = listening, key
        self._session: tuple[bytes, int] | None = None
        self._pending: dict[socket.socket, _Pending] = {}
        self._ready: list[Arrival] = []
        self._left = time.monotonic()
        self.rejected, self.last = 0, ""
        listening.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)

    def expect_data(self, secret: bytes | None, count: int = 0) -> None:
        """Let the data connections 0 to `count` - 1 of that session authenticate; None ends this."""
        self._session = None if secret is None else (secret, count)
        for arrival in [ready for ready in self._ready if ready.channel is not None]:
            self._ready.remove(arrival)
            arrival.sock.close()

    def next(self, deadline: float, *, data: bool, control: socket.socket | None = None) -> Arrival:
        """The next data connection, or the next new session. Raises TimedOut at the deadline, which is
        absolute (time.monotonic), and PeerLost at the end of `control`, the session's first socket.
        """
        away = time.monotonic() - self._left
        for pending in self._pending.values():  # they could not be served meanwhile
            pending.expires += away
        if control:
            self._selector.register(control, selectors.EVENT_READ)
        try:
            while True:
                for arrival in self._ready:
                    if (arrival.channel is not None) == data:
                        self._ready.remove(arrival)
                        return arrival
                self._serve(deadline)
        finally:
            self._left = time.monotonic()
            self._unwatch(control)

    def _serve(self, deadline: float) -> None:
        now = time.monotonic()
        if now >= deadline:
            raise TimedOut(f"timed out: no authenticated peer{self._rejections()}")
        until = min([deadline, *(pending.expires for pending in self._pending.values())])
        for key, _ in self._selector.select(until - now):
            if key.fileobj is self._listening:
                self._admit()
            elif not key.data:
                self._check_alive(key.fileobj)
            elif (pending := self._pending.get(key.data)) is not None:
                self._advance(pending)
        now = time.monotonic()
        for pending in [pending for pending in self._pending.values() if pending.expires <= now]:
            self.reject(pending.sock, "the handshake took too long")

    def _check_alive(self, control: Any) -> None:
        """Raise PeerLost if a session has ended. What its other side sent first is read later."""
        self._unwatch(control)
        try:
            alive = control.recv(1, socket.MSG_PEEK)
        except OSError as error:
            raise PeerLost(f"the connection broke: {error.strerror}") from None
        if not alive:
            raise PeerLost("the other side closed the connection")

    def _unwatch(self, control: socket.socket | None) -> None:
        if control and control in self._selector.get_map():
            self._selector.unregister(control)

    def _rejections(self) -> str:
        if not self.rejected:
            return ""
        connections = "connection" if self.rejected == 1 else "connections"
        return f" ({self.rejected} {connections} rejected, the last one: {self.last})"

    def _admit(self) -> None:
        try:
            sock, address = self._listening.accept()
        except OSError as error:  # of a connection that has gone (accept(2)), unless there is no room
            if error.errno in _NO_ROOM:
                self._give_up_one(error)
            return
        source = _source(address[0])
        self._make_room(source)
        sock.setblocking(False)
        pending = _Pending(sock, source, self._greeting(sock))
        self._pending[sock] = pending
        self._selector.register(sock, selectors.EVENT_READ, sock)

    def _give_up_one(self, error: OSError) -> None:
        """Close the oldest handshake, so that its descriptor is free. Raises TransportError if there is
        none."""
        if not self._pending:
            raise TransportError(f"cannot accept a connection: {error.strerror}")
        self.reject(next(iter(self._pending)), f"no room for more connections: {error.strerror}")

    def _make_room(self, source: str) -> None:
        sources = Counter(pending.source for pending in self._pending.values())
        if sources[source] >= MOST_PER_SOURCE:
            crowd = source
        elif len(self._pending) >= MOST:
            crowd = sources.most_common(1)[0][0]
        else:
            return
        oldest = next(pending for pending in self._pending.values() if pending.source == crowd)
        self.reject(oldest.sock, f"too many unauthenticated connections from {crowd}")

    def _greeting(self, sock: socket.socket) -> Steps:
        """The listener's side of a handshake: what the connection is for, then the authentication."""
        greeting = yield b"", IDENTITY_BYTES
        if greeting == NEW_SESSION:
            return (yield from authentication(self._key, "listen", CONTROL))
        secret, count = self._session or (b"", 0)
        index = greeting[-1]
        if index >= count or greeting != identity(secret, index):
            raise AuthenticationFailed("a data connection of an unknown session")
        self._pending[sock].channel = index
        return (yield from authentication(secret, "listen", data_purpose(index)))

    def _advance(self, pending: _Pending) -> None:
        """Handle what has arrived, without waiting for more."""
        sock = pending.sock
        try:
            piece = sock.recv(pending.wanted - len(pending.got))
            if not piece:
                pending.steps.throw(PeerLost("the other side closed the connection"))
            pending.got += piece
            while len(pending.got) == pending.wanted:
                out, wanted = pending.steps.send(pending.got)
                if sock.send(out) != len(out):  # a new socket has room for it
                    raise PeerLost("the other side reads nothing")
                pending.got, pending.wanted = b"", wanted
        except StopIteration as done:
            self._forget(pending.sock)
            sock.setblocking(True)
            tune(sock)
            self._ready.append(Arrival(pending.channel, sock, done.value))
        except BlockingIOError:
            return
        except TransportError as error:
            self.reject(sock, str(error))
        except OSError as error:
            self.reject(sock, f"the connection broke: {error.strerror}")

    def _forget(self, sock: socket.socket) -> None:
        if self._pending.pop(sock, None):
            self._selector.unregister(sock)

    def reject(self, sock: socket.socket, why: str) -> None:
        """Close a connection and count it."""
        self._forget(sock)
        sock.close()
        self.rejected += 1
        self.last = why

    def close(self) -> None:
        for sock in [*self._pending, *(arrival.sock for arrival in self._ready)]:
            sock.close()
        self._pending.clear()
        self._ready.clear()
        self._selector.close()


def tune(sock: socket.socket) -> None:
    """Send small messages at once, and detect a machine that dies silently. Both ends need this."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def is_unspecified(address: str) -> bool:
    """Whether a numeric address, in whatever spelling, means all addresses of this machine."""
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return parsed.is_unspecified or (mapped is not None and mapped.is_unspecified)


def _source(address: str) -> str:
    """Whose bound a connection counts against: an IPv4 address, or an IPv6 network of one site."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_SITE), strict=False))
