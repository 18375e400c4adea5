"""A socket whose frames carry a MAC: only the other side of this session can have sent them, in this order.

Each direction of each socket has a key of its own, derived from the secret of that socket's handshake. A tag
is the HMAC-SHA256 (RFC 2104) of the kind, the number of the frame in its direction, and its bytes. It is
compared in constant time before anything in the frame is parsed, except the length of a control message,
which is bounded and is covered by the tag too. So a frame that was altered, inserted, repeated, left out,
moved or sent back to its sender is refused. Nothing is encrypted.
"""

from __future__ import annotations

import hmac
import socket
import struct

from gdrkit.transport.errors import AuthenticationFailed, TransportError
from gdrkit.transport.handshake import derived, read_exactly, send_all

FRAME_LIMIT = 1 << 20  # control messages are short: anything longer is not one
TAG_BYTES = 32
_LENGTH, _NUMBERED = struct.Struct("!I"), struct.Struct("!BQ")
_FRAME, _DATA = 1, 2


class _SealedDirection:
    def __init__(self, secret: bytes, sender: str) -> None:
        self._keyed = hmac.new(derived(secret, b"gdrkit frames from " + sender.encode()), digestmod="sha256")
        self._number = 0

    def next(self, kind: int) -> hmac.HMAC:
        """The MAC of the next frame, to be updated with its bytes."""
        mac = self._keyed.copy()  # the key's two blocks are hashed once, not for each frame
        mac.update(_NUMBERED.pack(kind, self._number))
        self._number += 1
        return mac


class SealedSocket:
    """One authenticated socket. Each direction may be used by one thread at a time.

    `role` is "listen" or "connect". `deadline` (time.monotonic), if set, ends every call.
    """

    def __init__(self, sock: socket.socket, secret: bytes, role: str, deadline: float | None = None) -> None:
        self.sock, self.deadline = sock, deadline
        other = "connect" if role == "listen" else "listen"
        self._sent, self._received = _SealedDirection(secret, role), _SealedDirection(secret, other)

    def sealed(self, body: bytes) -> bytes:
        """The next frame to send, of a size that the other side knows."""
        mac = self._sent.next(_FRAME)
        mac.update(body)
        return body + mac.digest()

    def opened(self, frame: bytes) -> bytes:
        """The body of the next frame. Raises AuthenticationFailed."""
        mac = self._received.next(_FRAME)
        mac.update(frame[:-TAG_BYTES])
        check(mac, frame[-TAG_BYTES:])
        return frame[:-TAG_BYTES]

    def send_message(self, body: bytes) -> None:
        """Send a frame of any size up to FRAME_LIMIT. Raises PeerLost, TimedOut."""
        send_all(self.sock, self.sealed(_LENGTH.pack(len(body)) + body), self.deadline)

    def receive_message(self) -> bytes:
        """A frame of any size. Raises TransportError if it is longer than FRAME_LIMIT, AuthenticationFailed,
        PeerLost, TimedOut.
        """
        head = read_exactly(self.sock, _LENGTH.size, self.deadline)
        (size,) = _LENGTH.unpack(head)
        if size > FRAME_LIMIT:
            raise TransportError(f"control message too long: {size} bytes")
        return self.opened(head + read_exactly(self.sock, size + TAG_BYTES, self.deadline))[_LENGTH.size :]

    def data_sent(self) -> hmac.HMAC:
        """The MAC for data that is sent next."""
        return self._sent.next(_DATA)

    def data_received(self) -> hmac.HMAC:
        """The MAC for data that is received next."""
        return self._received.next(_DATA)

    def shut_down(self) -> None:
        """End both directions, also for a thread that waits on this socket."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # already closed by the other side
            return


def check(mac: hmac.HMAC, tag: bytes) -> None:
    """Raise AuthenticationFailed unless the tag is that of the MAC."""
    if not hmac.compare_digest(mac.digest(), tag):
        raise AuthenticationFailed(
            "a frame does not have the other side's seal: it was altered, repeated or moved on the way"
        )
