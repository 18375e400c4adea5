"""Both proofs of a handshake are compared whole, in both roles; and a seal says what it seals."""

from __future__ import annotations

import socket

import pytest

from gdrkit.transport import AuthenticationFailed, generate_key
from gdrkit.transport.handshake import MAGIC, NONCE_BYTES, PROOF_BYTES, authentication, data_purpose
from gdrkit.transport.sealed_socket import SealedSocket

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
        ends[0].sendall(b"a request" + mac.digest())
        with pytest.raises(AuthenticationFailed, match="seal"):
            receiver.receive(len(b"a request"))
