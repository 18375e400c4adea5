"""Rendezvous of two processes: only with the key, and on the best common path."""

import socket
import threading

import pytest

from gdrkit.transport import (
    AuthenticationFailed,
    Listener,
    PathUnavailable,
    TimedOut,
    TransportError,
    connect,
    generate_key,
    listen,
)
from gdrkit.transport.sealed_socket import FRAME_LIMIT, SealedSocket
from tests.transport.peer import peer

KEY = generate_key()


def refused(listener: Listener, error: type[TransportError]) -> None:
    with pytest.raises(error):
        listener.accept(5)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
def test_listening_on_all_addresses_is_refused(address):
    with pytest.raises((TransportError, OSError)), listen(address or "0.0.0.0", key=KEY):
        pass


def test_a_short_key_is_refused():
    with listen("127.0.0.1", key=b"short") as listener:
        thread = threading.Thread(target=refused, args=(listener, TransportError))
        thread.start()
        with pytest.raises(TransportError, match="too short"):
            connect("127.0.0.1", listener.address[1], key=b"short", timeout=2)
        thread.join()


def test_a_peer_with_another_key_is_rejected_and_the_listener_continues():
    with listen("127.0.0.1", key=KEY) as listener:
        errors: list[str] = []

        def accept() -> None:
            with pytest.raises(TimedOut, match="1 connection rejected") as caught:
                listener.accept(1.5)
            errors.append(str(caught.value))

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(AuthenticationFailed):
            connect("127.0.0.1", listener.address[1], key=generate_key(), timeout=2)
        thread.join()
        assert "key" in errors[0]


def test_a_peer_with_another_protocol_is_rejected():
    with listen("127.0.0.1", key=KEY) as listener:
        with socket.create_connection(listener.address) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with pytest.raises(TimedOut, match=r"no authenticated peer .*rejected"):
                listener.accept(0.5)
        assert listener.rejected == 1


def test_a_reflected_challenge_is_rejected():
    with listen("127.0.0.1", key=KEY) as listener, socket.create_connection(listener.address) as mirror:

        def reflect() -> None:
            mirror.sendall(bytes(16))
            while data := mirror.recv(4096):
                mirror.sendall(data)

        thread = threading.Thread(target=reflect, daemon=True)
        thread.start()
        with pytest.raises(TimedOut, match="our own challenge"):
            listener.accept(1)


def test_a_frame_above_the_limit_is_not_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall((FRAME_LIMIT + 1).to_bytes(4, "big"))
        with pytest.raises(TransportError, match="control message too long"):
            SealedSocket(ours, KEY, "listen").receive_message()


def test_the_best_path_that_both_allow_is_used():
    with peer("sys.stdin.read()", "shared", "tcp") as other:
        assert other.connection.path == "shared"


def test_the_reason_against_a_better_path_is_given():
    with peer("sys.stdin.read()", "peer", "tcp") as other:
        assert other.connection.path == "tcp"
        assert other.connection.considered == ("peer: both sides must name a GPU",)


def test_two_sides_without_a_common_path_both_get_an_error():
    with listen("127.0.0.1", key=KEY, paths=("tcp",)) as listener:
        thread = threading.Thread(target=refused, args=(listener, PathUnavailable))
        thread.start()
        with pytest.raises(PathUnavailable, match="no allowed path in common"):
            connect("127.0.0.1", listener.address[1], key=KEY, paths=("shared",), timeout=5)
        thread.join()


def test_an_unknown_path_is_an_error_before_anything_is_opened():
    with pytest.raises(TransportError, match="no such path: rocket"):
        listen("127.0.0.1", key=KEY, paths=("rocket",))


def test_connecting_to_a_closed_port_times_out():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(TimedOut, match="no listener on"):
        connect("127.0.0.1", port, key=KEY, timeout=0.2)
