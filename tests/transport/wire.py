"""The other side of the protocol, written from its description with hashlib alone, to compare with."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import struct
from typing import Any

MAGIC = b"gdrkit-transport/9\n"


def mac(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 of parts, each after its length in 4 bytes."""
    text = b"".join(struct.pack(">I", len(part)) + part for part in parts)
    return hmac.new(key, text, hashlib.sha256).digest()


def expanded(secret: bytes, info: bytes) -> bytes:
    """The first block of HKDF-Expand (RFC 5869, 2.3): T(1) = HMAC(PRK, info | 0x01)."""
    return hmac.new(secret, info + b"\x01", hashlib.sha256).digest()


def proof(key: bytes, role: bytes, purpose: bytes, connector: bytes, listener: bytes) -> bytes:
    return mac(key, b"proof", MAGIC, role, purpose, connector + listener)


def session(key: bytes, purpose: bytes, connector: bytes, listener: bytes) -> bytes:
    return mac(key, b"session", MAGIC, purpose, connector + listener)


def named(secret: bytes, index: int) -> bytes:
    """How a data connection begins."""
    return expanded(secret, b"gdrkit session identity")[:15] + bytes([index])


def seal(secret: bytes, sender: str, kind: int, number: int, text: bytes) -> bytes:
    key = expanded(secret, b"gdrkit frames from " + sender.encode())
    return hmac.new(key, struct.pack(">BQ", kind, number) + text, hashlib.sha256).digest()


def exactly(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (piece := sock.recv(count - len(found))):
        found += piece
    return found


class Peer:
    """A side that has the key, and sends what a test wants. `secret` is that of its session."""

    def __init__(self, sock: socket.socket, role: str, secret: bytes) -> None:
        self.sock, self.role, self.secret = sock, role, secret
        self.sent = self.received = 0

    @classmethod
    def connector(
        cls, address: Any, key: bytes, greeting: bytes = bytes(16), purpose: bytes = b"control"
    ) -> Peer:
        sock = socket.create_connection(address, 30)
        mine = os.urandom(32)
        sock.sendall(greeting + MAGIC + mine)
        if exactly(sock, len(MAGIC)) != MAGIC:
            raise ConnectionResetError("it was refused before the handshake")
        theirs = exactly(sock, 32)
        sock.sendall(proof(key, b"connect", purpose, mine, theirs))
        assert exactly(sock, 32) == proof(key, b"listen", purpose, mine, theirs)
        return cls(sock, "connect", session(key, purpose, mine, theirs))

    @classmethod
    def listener(cls, sock: socket.socket, key: bytes, purpose: bytes = b"control") -> Peer:
        """On a connection that was accepted, after its first 16 bytes."""
        mine = os.urandom(32)
        sock.sendall(MAGIC + mine)
        assert exactly(sock, len(MAGIC)) == MAGIC
        theirs = exactly(sock, 32)
        assert exactly(sock, 32) == proof(key, b"connect", purpose, theirs, mine)
        sock.sendall(proof(key, b"listen", purpose, theirs, mine))
        return cls(sock, "listen", session(key, purpose, theirs, mine))

    def data(self, index: int) -> Peer:
        """A data connection of this session."""
        address = self.sock.getpeername()
        return Peer.connector(address, self.secret, named(self.secret, index), b"data" + bytes([index]))

    def send(self, *message: Any) -> None:
        body = json.dumps(message).encode()
        text = struct.pack(">I", len(body)) + body
        self.sock.sendall(text + seal(self.secret, self.role, 1, self.sent, text))
        self.sent += 1

    def receive(self) -> list[Any]:
        other = "listen" if self.role == "connect" else "connect"
        head = exactly(self.sock, 4)
        body = exactly(self.sock, int.from_bytes(head, "big"))
        assert exactly(self.sock, 32) == seal(self.secret, other, 1, self.received, head + body)
        self.received += 1
        message = json.loads(body)
        assert isinstance(message, list)
        return message

    def has_been_closed(self) -> bool:
        """Waits for the end of what the other side sends."""
        return was_closed(self.sock)


def was_closed(sock: socket.socket) -> bool:
    sock.settimeout(30)
    try:
        while sock.recv(4096):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True
