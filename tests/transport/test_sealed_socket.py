"""A seal covers direction, kind, number, length and bytes, as the description says."""

from __future__ import annotations

import hmac
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from gdrkit.transport import AuthenticationFailed, TimedOut, TransportError, generate_key
from gdrkit.transport.sealed_socket import SealedSocket
from tests.transport import wire

SECRET = generate_key()
OTHER = {"listen": "connect", "connect": "listen"}
ALTERED = "^a frame does not have the other side's seal: it was altered, repeated or moved on the way$"


@pytest.fixture(params=["listen", "connect"])
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    pair = socket.socketpair()
    with pair[0], pair[1]:
        pair[1].settimeout(30)
        yield pair


def test_what_is_sent_has_the_seal_of_the_description(role, ends):
    sealed = SealedSocket(ends[0], SECRET, role)
    assert sealed.sealed(b"first") == b"first" + wire.seal(SECRET, role, 1, 0, b"first")
    mac = sealed.data_sent()
    mac.update(b"data")
    assert mac.digest() == wire.seal(SECRET, role, 2, 1, b"data")
    sealed.send_message(b"third")
    text = struct.pack(">I", 5) + b"third"
    assert wire.exactly(ends[1], 4 + 5 + 32) == text + wire.seal(SECRET, role, 1, 2, text)


def test_what_the_description_seals_is_read(role, ends):
    other, sealed = OTHER[role], SealedSocket(ends[0], SECRET, role)
    assert sealed.opened(b"first" + wire.seal(SECRET, other, 1, 0, b"first")) == b"first"
    mac = sealed.data_received()
    mac.update(b"data")
    assert hmac.compare_digest(mac.digest(), wire.seal(SECRET, other, 2, 1, b"data"))
    for number, body in enumerate((b"", b"fourth"), 2):
        text = struct.pack(">I", len(body)) + body
        ends[1].sendall(text + wire.seal(SECRET, other, 1, number, text))
        assert sealed.receive_message() == body


def test_the_directions_are_numbered_apart(role, ends):
    sealed = SealedSocket(ends[0], SECRET, role)
    for _ in range(3):
        sealed.sealed(b"")
    assert sealed.opened(wire.seal(SECRET, OTHER[role], 1, 0, b"")) == b""


@pytest.mark.parametrize(
    "change",
    [
        lambda text, tag: (text, tag[:-1] + bytes([tag[-1] ^ 1])),
        lambda text, tag: (text, bytes([tag[0] ^ 1]) + tag[1:]),
        lambda text, tag: (b"another", tag),
    ],
)
def test_a_changed_frame_is_refused(role, ends, change):
    text, tag = change(b"message", wire.seal(SECRET, OTHER[role], 1, 0, b"message"))
    with pytest.raises(AuthenticationFailed, match=ALTERED):
        SealedSocket(ends[0], SECRET, role).opened(text + tag)


@pytest.mark.parametrize(("number", "kind", "sender"), [(1, 1, "other"), (0, 2, "other"), (0, 1, "own")])
def test_a_frame_of_another_number_kind_or_direction_is_refused(role, ends, number, kind, sender):
    sender = OTHER[role] if sender == "other" else role
    frame = b"message" + wire.seal(SECRET, sender, kind, number, b"message")
    with pytest.raises(AuthenticationFailed, match=ALTERED):
        SealedSocket(ends[0], SECRET, role).opened(frame)


def test_the_length_of_a_message_is_sealed(role, ends):
    ends[1].sendall(struct.pack(">I", 2) + b"ab" + wire.seal(SECRET, OTHER[role], 1, 0, b"ab"))
    with pytest.raises(AuthenticationFailed, match=ALTERED):
        SealedSocket(ends[0], SECRET, role).receive_message()


def test_a_message_has_at_most_a_mebibyte(role, ends):
    sealed, body = SealedSocket(ends[0], SECRET, role), bytes(1 << 20)
    text = struct.pack(">I", len(body)) + body
    frame = text + wire.seal(SECRET, OTHER[role], 1, 0, text)
    sender = threading.Thread(target=ends[1].sendall, args=(frame,))
    sender.start()
    assert sealed.receive_message() == body
    sender.join(30)
    ends[1].sendall(struct.pack(">I", (1 << 20) + 1))
    with pytest.raises(TransportError, match=r"^control message too long: 1048577 bytes$"):
        sealed.receive_message()


def test_a_deadline_ends_every_call(role, ends):
    sealed = SealedSocket(ends[0], SECRET, role, time.monotonic() - 1)
    for call in (lambda: sealed.send_message(b""), sealed.receive_message):
        with pytest.raises(TimedOut):
            call()


def test_shutting_down_ends_both_directions_also_twice(role, ends):
    sealed = SealedSocket(ends[0], SECRET, role)
    sealed.shut_down()
    assert ends[1].recv(1) == b"" and ends[0].recv(1) == b""
    with pytest.raises(BrokenPipeError):
        ends[1].sendall(b"x")
    ends[1].close()
    sealed.shut_down()
    ends[0].close()
    sealed.shut_down()
