"""Two processes prove to each other that they hold one key, before anything else is said.

Mutual challenge and response with HMAC-SHA256 (RFC 2104) over both sides' random nonces and the roles,
so that no answer can be played back or reflected. The key itself never travels. What follows is not
encrypted: run it on a network that you trust with the data, as RDMA itself has to be.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct

from gdrkit.transport.errors import AuthenticationFailed, PeerLost, TimedOut, TransportError

MAGIC = b"gdrkit-transport/1\n"
NONCE_BYTES, PROOF_BYTES, KEY_BYTES_AT_LEAST = 32, 32, 16
FRAME_LIMIT = 1 << 20  # control messages are short: anything longer is not ours
_LENGTH = struct.Struct("!I")


def generate_key() -> bytes:
    """A new random key of 32 bytes, to be given to both sides over a channel that is trusted."""
    return secrets.token_bytes(32)


def prove(sock: socket.socket, key: bytes, role: str, purpose: bytes = b"control") -> bytes:
    """Authenticate both ways; returns a secret of this session that further sockets are bound to it with.

    `role` is "listen" or "connect". Raises AuthenticationFailed, or PeerLost where the other side hangs up.
    """
    if len(key) < KEY_BYTES_AT_LEAST:
        raise TransportError(f"a key of {len(key)} bytes is too short: {KEY_BYTES_AT_LEAST} at least")
    mine = secrets.token_bytes(NONCE_BYTES)
    sock.sendall(MAGIC + mine)
    if exactly(sock, len(MAGIC)) != MAGIC:
        raise AuthenticationFailed("the other side is not a gdrkit transport")
    theirs = exactly(sock, NONCE_BYTES)
    if hmac.compare_digest(mine, theirs):
        raise AuthenticationFailed("the other side sent our own challenge back")
    nonces = mine + theirs if role == "connect" else theirs + mine
    other = "listen" if role == "connect" else "connect"
    sock.sendall(_digest(key, b"proof", role.encode(), purpose, nonces))
    try:
        proof = exactly(sock, PROOF_BYTES)
    except PeerLost:
        raise AuthenticationFailed(
            "the other side hung up: its key differs, or it expected another"
        ) from None
    if not hmac.compare_digest(proof, _digest(key, b"proof", other.encode(), purpose, nonces)):
        raise AuthenticationFailed("the other side does not hold this key")
    return _digest(key, b"session", purpose, nonces)


def _digest(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(_LENGTH.pack(len(part)) + part for part in parts), "sha256")


def exactly(sock: socket.socket, count: int) -> bytes:
    """That many bytes. Raises PeerLost at the end of the stream, TimedOut when the socket's time is over."""
    pieces = bytearray()
    while len(pieces) < count:
        try:
            piece = sock.recv(count - len(pieces))
        except TimeoutError:
            raise TimedOut(f"no answer within {sock.gettimeout()} s") from None
        except OSError as error:
            raise PeerLost(f"the connection broke: {error.strerror}") from None
        if not piece:
            raise PeerLost("the other side closed the connection")
        pieces += piece
    return bytes(pieces)


def write_frame(sock: socket.socket, body: bytes) -> None:
    """Send one control message."""
    try:
        sock.sendall(_LENGTH.pack(len(body)) + body)
    except TimeoutError:
        raise TimedOut(f"the other side took nothing for {sock.gettimeout()} s") from None
    except OSError as error:
        raise PeerLost(f"the connection broke: {error.strerror}") from None


def read_frame(sock: socket.socket) -> bytes:
    """One control message. Raises TransportError where its length cannot be ours."""
    (length,) = _LENGTH.unpack(exactly(sock, _LENGTH.size))
    if length > FRAME_LIMIT:
        raise TransportError(f"a control message of {length} bytes is not one of ours")
    return exactly(sock, length)
