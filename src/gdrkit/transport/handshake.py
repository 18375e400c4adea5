"""Mutual authentication with a shared key, before any other message, and the framing of control messages.

Challenge and response in both directions with HMAC-SHA256 (RFC 2104) over both sides' random nonces and the
roles, so that an answer cannot be replayed or reflected. The key itself is never sent. Later traffic is not
encrypted: use a network that you trust with the data, as RDMA requires in any case.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct

from gdrkit.transport.errors import AuthenticationFailed, PeerLost, TimedOut, TransportError

MAGIC = b"gdrkit-transport/1\n"
NONCE_BYTES, PROOF_BYTES, MIN_KEY_BYTES = 32, 32, 16
FRAME_LIMIT = 1 << 20  # control messages are short: anything longer is not one
_LENGTH = struct.Struct("!I")


def generate_key() -> bytes:
    """A new random key of 32 bytes. Give it to both sides over a trusted channel."""
    return secrets.token_bytes(32)


def authenticate(sock: socket.socket, key: bytes, role: str, purpose: bytes = b"control") -> bytes:
    """Authenticate both sides, and return a session secret that binds further sockets to this session.

    `role` is "listen" or "connect". Raises AuthenticationFailed, or PeerLost if the other side hangs up.
    """
    if len(key) < MIN_KEY_BYTES:
        raise TransportError(f"key too short: {len(key)} bytes, at least {MIN_KEY_BYTES} needed")
    mine = secrets.token_bytes(NONCE_BYTES)
    sock.sendall(MAGIC + mine)
    if read_exactly(sock, len(MAGIC)) != MAGIC:
        raise AuthenticationFailed("the other side is not a gdrkit transport")
    theirs = read_exactly(sock, NONCE_BYTES)
    if hmac.compare_digest(mine, theirs):
        raise AuthenticationFailed("the other side reflected our own challenge")
    nonces = mine + theirs if role == "connect" else theirs + mine
    other = "listen" if role == "connect" else "connect"
    sock.sendall(_digest(key, b"proof", role.encode(), purpose, nonces))
    try:
        proof = read_exactly(sock, PROOF_BYTES)
    except PeerLost:
        raise AuthenticationFailed("the other side hung up: the keys probably differ") from None
    if not hmac.compare_digest(proof, _digest(key, b"proof", other.encode(), purpose, nonces)):
        raise AuthenticationFailed("the other side does not have this key")
    return _digest(key, b"session", purpose, nonces)


def _digest(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(_LENGTH.pack(len(part)) + part for part in parts), "sha256")


def read_exactly(sock: socket.socket, count: int) -> bytes:
    """Exactly `count` bytes. Raises PeerLost at the end of the stream, TimedOut at the socket's timeout."""
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
        raise TimedOut(f"the other side read nothing for {sock.gettimeout()} s") from None
    except OSError as error:
        raise PeerLost(f"the connection broke: {error.strerror}") from None


def read_frame(sock: socket.socket) -> bytes:
    """One control message. Raises TransportError if it is longer than FRAME_LIMIT."""
    (length,) = _LENGTH.unpack(read_exactly(sock, _LENGTH.size))
    if length > FRAME_LIMIT:
        raise TransportError(f"control message too long: {length} bytes")
    return read_exactly(sock, length)
