"""Both proofs of a handshake are compared whole, in both roles; and a seal says what it seals."""

from __future__ import annotations

import socket
import struct
import threading
import time

import pytest

from gdrkit.transport import AuthenticationFailed, PeerLost, TimedOut, TransportError, generate_key
from gdrkit.transport.handshake import (
    MAGIC,
    NONCE_BYTES,
    PROOF_BYTES,
    authenticate,
    authentication,
    data_purpose,
    identity,
    read_exactly,
    send_all,
)
from gdrkit.transport.sealed_socket import SealedSocket
from tests.transport import wire

KEY = generate_key()
SIDES = ("listen", "connect")


class Side:
    """One side of a handshake, up to the proof of the other side."""

    def __init__(self, role: str, *more: bytes) -> None:
        self.steps = authentication(KEY, role, *more)
        self.nonce = next(self.steps)[0][len(MAGIC) :]
        assert self.steps.send(MAGIC) == (b"", NONCE_BYTES)

    def hear(self, nonce: bytes) -> bytes:
        """Its own proof, if it is the side that proves itself first."""
        proof, count = self.steps.send(nonce)
        assert count == PROOF_BYTES
        return proof

    def believe(self, proof: bytes) -> tuple[bytes, bytes]:
        """Its own proof, if it is the second one, and the session's secret."""
        answer = b""
        try:
            answer, count = self.steps.send(proof)
            assert count == 0
            self.steps.send(b"")
        except StopIteration as done:
            return answer, done.value
        raise AssertionError("the handshake goes on")


def both(*more: bytes) -> tuple[Side, Side, bytes]:
    """A listener, a connector and the connector's proof."""
    listener, connector = (Side(role, *more) for role in SIDES)
    proof = connector.hear(listener.nonce)
    assert len(proof) == PROOF_BYTES and listener.hear(connector.nonce) == b""
    return listener, connector, proof


def with_a_changed_bit(proof: bytes, at: int) -> bytes:
    return bytes(byte ^ 1 if index == at else byte for index, byte in enumerate(proof))


def test_two_sides_with_one_key_share_a_secret():
    listener, connector, proof = both()
    answer, secret = listener.believe(proof)
    assert connector.believe(answer) == (b"", secret)


@pytest.mark.parametrize("at", range(PROOF_BYTES))
def test_a_proof_with_one_wrong_bit_is_refused(at):
    listener, _, proof = both()
    with pytest.raises(AuthenticationFailed):
        listener.believe(with_a_changed_bit(proof, at))
    listener, connector, proof = both()
    answer, _ = listener.believe(proof)
    with pytest.raises(AuthenticationFailed):
        connector.believe(with_a_changed_bit(answer, at))


def test_a_proof_of_another_handshake_role_or_purpose_is_refused():
    _, _, replayed = both()
    listener, connector, own = both()
    with pytest.raises(AuthenticationFailed):
        listener.believe(replayed)
    with pytest.raises(AuthenticationFailed):
        connector.believe(own)  # reflected
    connector, listener = Side("connect", data_purpose(0)), Side("listen", data_purpose(1))
    listener.hear(connector.nonce)
    with pytest.raises(AuthenticationFailed):
        listener.believe(connector.hear(listener.nonce))


def test_a_seal_of_data_is_not_one_of_a_control_frame():
    """An intruder moves bytes that were sealed as data to where a frame of the same number is read."""
    secret = generate_key()
    ends = socket.socketpair()
    with ends[0], ends[1]:
        sender = SealedSocket(ends[0], secret, "connect")
        receiver = SealedSocket(ends[1], secret, "listen")
        mac = sender.data_sent()
        mac.update(b"a request")
        with pytest.raises(AuthenticationFailed, match="seal"):
            receiver.opened(b"a request" + mac.digest())


@pytest.mark.parametrize("purpose", [b"control", data_purpose(5)])
def test_the_proofs_and_the_secret_are_those_of_the_description(purpose):
    listener, connector, own = both(purpose)
    nonces = (connector.nonce, listener.nonce)
    answer, secret = listener.believe(own)
    assert (len(listener.nonce), len(connector.nonce)) == (32, 32)
    assert own == wire.proof(KEY, b"connect", purpose, *nonces)
    assert answer == wire.proof(KEY, b"listen", purpose, *nonces)
    assert secret == connector.believe(answer)[1] == wire.session(KEY, purpose, *nonces)


def test_the_first_message_names_the_protocol_and_its_version():
    assert MAGIC == b"gdrkit-transport/9\n"
    first, count = next(authentication(KEY, "listen"))
    assert (first[:19], len(first), count) == (MAGIC, 19 + 32, 19)


def test_a_data_connection_names_its_session_and_index():
    assert identity(KEY, 5) == wire.named(KEY, 5)
    assert len(identity(KEY, 0)) == 16
    assert data_purpose(5) == b"data\x05"


def test_a_key_has_at_least_16_bytes():
    assert len(generate_key()) == 32 and generate_key() != generate_key()
    next(authentication(bytes(16), "connect"))
    with pytest.raises(TransportError, match=r"^key too short: 15 bytes, at least 16 needed$"):
        next(authentication(bytes(15), "connect"))


NOT_OURS = "the other side is not a gdrkit transport"
OTHER = (
    "the other side speaks version {} of the transport protocol, this side version {}; install the same"
    " gdrkit on both"
)


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"gdrkit-transport/6\n", OTHER.format(6, 9)),
        (b"gdrkit-transport/13", OTHER.format(13, 9)),
        (b"gdrkit-transports/4", NOT_OURS),
        (b"another-protocol/4\n", NOT_OURS),
        (b"gdrkit-transport/x\n", NOT_OURS),
        (b"gdrkit-transport/\n\n", NOT_OURS),
        (b"GET / HTTP/1.1\r\nHo", NOT_OURS),
        (b"SSH-2.0-OpenSSH_9.6", NOT_OURS),
    ],
)
@pytest.mark.parametrize("role", SIDES)
def test_another_version_is_told_from_another_protocol(role, first, why):
    steps = authentication(KEY, role)
    next(steps)
    with pytest.raises(AuthenticationFailed) as caught:
        steps.send(first)
    assert str(caught.value) == why


@pytest.mark.parametrize("role", SIDES)
def test_our_own_challenge_is_no_challenge_of_the_other_side(role):
    side = Side(role)
    with pytest.raises(AuthenticationFailed, match=r"^the other side reflected our own challenge$"):
        side.hear(side.nonce)


@pytest.mark.parametrize("role", SIDES)
def test_an_end_where_a_proof_is_due_means_another_key(role):
    side = Side(role)
    side.hear(bytes(32))
    with pytest.raises(AuthenticationFailed, match=r"^the other side hung up: the keys probably differ$"):
        side.steps.throw(PeerLost("the other side closed the connection"))


@pytest.mark.parametrize("role", SIDES)
def test_a_wrong_proof_means_another_key(role):
    side = Side(role)
    side.hear(bytes(32))
    with pytest.raises(AuthenticationFailed, match=r"^the other side does not have this key$"):
        side.steps.send(bytes(32))


def pair() -> tuple[socket.socket, socket.socket]:
    ends = socket.socketpair()
    ends[1].settimeout(30)
    return ends


@pytest.mark.parametrize("role", SIDES)
def test_a_side_that_runs_authenticates_with_the_one_of_the_description(role):
    ours, theirs = pair()
    found: list[bytes] = []

    def run() -> None:
        found.append(authenticate(ours, authentication(KEY, role), time.monotonic() + 30))

    with ours, theirs:
        thread = threading.Thread(target=run)
        thread.start()
        nonce, listens = bytes(range(32)), role == "listen"
        theirs.sendall(MAGIC + nonce)
        first = wire.exactly(theirs, 19 + 32)[19:]
        nonces = (nonce, first) if listens else (first, nonce)
        own, other = (b"listen", b"connect") if listens else (b"connect", b"listen")
        if listens:
            theirs.sendall(wire.proof(KEY, other, b"control", *nonces))
        assert wire.exactly(theirs, 32) == wire.proof(KEY, own, b"control", *nonces)
        if not listens:
            theirs.sendall(wire.proof(KEY, other, b"control", *nonces))
        thread.join(30)
    assert found == [wire.session(KEY, b"control", *nonces)]


def test_what_the_other_side_sent_before_it_closed_is_still_read():
    ours, theirs = pair()
    with ours:
        theirs.sendall(b"gdrkit-transport/3\n")
        theirs.close()  # so that sending fails
        with pytest.raises(AuthenticationFailed, match="speaks version 3"):
            authenticate(ours, authentication(KEY, "connect"), time.monotonic() + 30)


def test_exactly_the_wanted_bytes_are_read_however_they_arrive():
    ours, theirs = pair()
    with ours, theirs:
        late = threading.Timer(0.1, theirs.sendall, (b"cdef",))
        theirs.sendall(b"ab")
        late.start()
        assert read_exactly(ours, 4, time.monotonic() + 30) == b"abcd"
        assert read_exactly(ours, 2) == b"ef"
        assert read_exactly(ours, 0) == b""


def reset(sock: socket.socket) -> None:
    """Close a TCP connection with RST: socket(7), SO_LINGER of 0 s."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_the_end_and_the_break_of_a_connection_are_the_loss_of_the_peer():
    ours, theirs = pair()
    with ours:
        theirs.sendall(b"ab")
        theirs.close()
        with pytest.raises(PeerLost, match=r"^the other side closed the connection$"):
            read_exactly(ours, 3)
        with pytest.raises(PeerLost, match=r"^the connection broke: Broken pipe$"):
            send_all(ours, b"x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        reset(server.accept()[0])
    with ours, pytest.raises(PeerLost, match=r"^the connection broke: Connection reset by peer$"):
        read_exactly(ours, 1)


NO_ANSWER = "^timed out: the other side did not answer in time$"
READS_NOTHING = "^timed out: the other side reads nothing$"


def test_a_deadline_that_has_come_ends_reading_and_sending(monkeypatch):
    ours, theirs = pair()
    with ours, theirs:
        theirs.sendall(b"here")
        monkeypatch.setattr(time, "monotonic", lambda: 100.0)
        for deadline in (99.0, 100.0):
            with pytest.raises(TimedOut, match=NO_ANSWER):
                read_exactly(ours, 4, deadline)
            with pytest.raises(TimedOut, match=READS_NOTHING):
                send_all(ours, b"x", deadline)
        assert read_exactly(ours, 4, 102.5) == b"here"
        assert ours.gettimeout() == 2.5


def test_a_deadline_comes_while_the_other_side_waits():
    ours, theirs = pair()
    with ours, theirs:
        with pytest.raises(TimedOut, match=NO_ANSWER):
            read_exactly(ours, 1, time.monotonic() + 0.1)
        with pytest.raises(TimedOut, match=READS_NOTHING):
            send_all(ours, bytes(1 << 24), time.monotonic() + 0.1)
