"""Mutual authentication with a shared key, before any other message.

Challenge and response in both directions with HMAC-SHA256 (RFC 2104) over both sides' random nonces, the
protocol's version, the purpose and the roles, so that an answer cannot be replayed, reflected or used for
another version. The key itself is never sent. The listener proves nothing to a peer that has not proved that
it has the key.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from collections.abc import Generator
from contextlib import suppress

from gdrkit.transport.errors import AuthenticationFailed, PeerLost, TimedOut, TransportError
from gdrkit.transport.protocol import VERSION

_NAME = b"gdrkit-transport/"
MAGIC = _NAME + b"%d\n" % VERSION
NONCE_BYTES, PROOF_BYTES, MIN_KEY_BYTES, IDENTITY_BYTES = 32, 32, 16, 16
NEW_SESSION = bytes(IDENTITY_BYTES)
CONTROL = b"control"
_LENGTH = struct.Struct("!I")

Steps = Generator[tuple[bytes, int], bytes, bytes]
"""Half of a handshake without I/O: it yields what to send and how many bytes it needs next, is sent those
bytes, and returns the session secret.
"""


def generate_key() -> bytes:
    """A new random key of 32 bytes. Give it to both sides over a trusted channel."""
    return secrets.token_bytes(32)


def authentication(key: bytes, role: str, purpose: bytes = CONTROL) -> Steps:
    """Authenticate both sides, and return a session secret from which further keys are derived.

    `role` is "listen" or "connect". Raises AuthenticationFailed.
    """
    if len(key) < MIN_KEY_BYTES:
        raise TransportError(f"key too short: {len(key)} bytes, at least {MIN_KEY_BYTES} needed")
    mine = secrets.token_bytes(NONCE_BYTES)
    _check_version((yield MAGIC + mine, len(MAGIC)))
    theirs = yield b"", NONCE_BYTES
    if hmac.compare_digest(mine, theirs):
        raise AuthenticationFailed("the other side reflected our own challenge")
    listens = role == "listen"
    nonces = theirs + mine if listens else mine + theirs
    proofs = [
        _digest(key, b"proof", MAGIC, one.encode(), purpose, nonces)
        for one in (role, "connect" if listens else "listen")
    ]
    try:
        proof = yield (b"" if listens else proofs[0]), PROOF_BYTES
    except PeerLost:
        raise AuthenticationFailed("the other side hung up: the keys probably differ") from None
    if not hmac.compare_digest(proof, proofs[1]):
        raise AuthenticationFailed("the other side does not have this key")
    if listens:
        yield proofs[0], 0
    return _digest(key, b"session", MAGIC, purpose, nonces)


def _check_version(magic: bytes) -> None:
    if magic == MAGIC:
        return
    name, _, version = magic.partition(b"/")
    if name + b"/" != _NAME or not version.strip().isdigit():
        raise AuthenticationFailed("the other side is not a gdrkit transport")
    raise AuthenticationFailed(
        f"the other side speaks version {int(version)} of the transport protocol, this side version"
        f" {VERSION}; install the same gdrkit on both"
    )


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key of 32 bytes for one purpose: HKDF-Expand of RFC 5869, whose first block is all of it."""
    return hmac.digest(secret, purpose + b"\x01", "sha256")


def identity(secret: bytes, index: int) -> bytes:
    """How a data connection names its session and its index before it authenticates."""
    return derived(secret, b"gdrkit session identity")[: IDENTITY_BYTES - 1] + bytes([index])


def data_purpose(index: int) -> bytes:
    """The purpose of a data connection, which binds its index to its proof."""
    return b"data" + bytes([index])


def authenticate(sock: socket.socket, steps: Steps, deadline: float) -> bytes:
    """Run one side of a handshake on a blocking socket; `deadline` is absolute (time.monotonic).

    Returns the session secret. Raises AuthenticationFailed, PeerLost, TimedOut.
    """
    try:
        out, count = next(steps)
        while True:
            try:
                with suppress(PeerLost):  # before it closed, it may have sent why
                    send_all(sock, out, deadline)
                received = read_exactly(sock, count, deadline)
            except PeerLost as error:
                out, count = steps.throw(error)
            else:
                out, count = steps.send(received)
    except StopIteration as done:
        secret: bytes = done.value
        return secret


def _digest(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(_LENGTH.pack(len(part)) + part for part in parts), "sha256")


def read_exactly(sock: socket.socket, count: int, deadline: float | None = None) -> bytes:
    """Exactly `count` bytes. Raises PeerLost at the end of the stream, TimedOut at the deadline, however
    many bytes arrive before it.
    """
    found = bytearray(count)
    target = memoryview(found)
    while target:
        try:
            _limit(sock, deadline)
            received = sock.recv_into(target)
        except TimeoutError:
            raise TimedOut("timed out: the other side did not answer in time") from None
        except OSError as error:
            raise PeerLost(f"the connection broke: {error.strerror}") from None
        if not received:
            raise PeerLost("the other side closed the connection")
        target = target[received:]
    return bytes(found)


def send_all(sock: socket.socket, data: bytes | memoryview, deadline: float | None = None) -> None:
    """Send all of the data. Raises PeerLost, and TimedOut at the deadline, or that of the socket itself."""
    try:
        _limit(sock, deadline)
        sock.sendall(data)
    except (TimeoutError, BlockingIOError):
        raise TimedOut("timed out: the other side reads nothing") from None
    except OSError as error:
        raise PeerLost(f"the connection broke: {error.strerror}") from None


def _limit(sock: socket.socket, deadline: float | None) -> None:
    if deadline is not None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
