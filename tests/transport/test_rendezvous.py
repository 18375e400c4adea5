"""How two processes meet: with the key or not at all, and on which path."""

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
from gdrkit.transport.handshake import FRAME_LIMIT, read_frame
from tests.transport.peer import peer

KEY = generate_key()


def refused(door: Listener, error: type[TransportError]) -> None:
    with pytest.raises(error):
        door.accept(5)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
def test_nobody_listens_on_all_addresses(address):
    with pytest.raises((TransportError, OSError)), listen(address or "0.0.0.0", key=KEY):
        pass


def test_a_short_key_is_refused():
    with listen("127.0.0.1", key=b"short") as door:
        thread = threading.Thread(target=refused, args=(door, TransportError))
        thread.start()
        with pytest.raises(TransportError, match="too short"):
            connect("127.0.0.1", door.address[1], key=b"short", timeout=2)
        thread.join()


def test_another_key_does_not_get_in_and_the_listener_goes_on():
    with listen("127.0.0.1", key=KEY) as door:
        errors: list[str] = []

        def accept() -> None:
            with pytest.raises(TimedOut, match="1 turned away") as caught:
                door.accept(1.5)
            errors.append(str(caught.value))

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(AuthenticationFailed):
            connect("127.0.0.1", door.address[1], key=generate_key(), timeout=2)
        thread.join()
        assert "key" in errors[0]


def test_a_stranger_who_speaks_another_protocol_is_turned_away():
    with listen("127.0.0.1", key=KEY) as door:
        with socket.create_connection(door.address) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with pytest.raises(TimedOut, match="turned away"):
                door.accept(0.5)
        assert door.turned_away == 1


def test_our_own_challenge_is_not_an_answer():
    with listen("127.0.0.1", key=KEY) as door, socket.create_connection(door.address) as mirror:

        def reflect() -> None:
            mirror.sendall(bytes(16))
            while data := mirror.recv(4096):
                mirror.sendall(data)

        thread = threading.Thread(target=reflect, daemon=True)
        thread.start()
        with pytest.raises(TimedOut, match="our own challenge"):
            door.accept(1)


def test_a_frame_longer_than_ours_is_not_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall((FRAME_LIMIT + 1).to_bytes(4, "big"))
        with pytest.raises(TransportError, match="not one of ours"):
            read_frame(ours)


def test_the_best_path_that_both_allow_is_taken():
    with peer("sys.stdin.read()", "shared", "tcp") as other:
        assert other.connection.path == "shared"


def test_why_a_better_path_was_not_taken_is_told():
    with peer("sys.stdin.read()", "peer", "tcp") as other:
        assert other.connection.path == "tcp"
        assert other.connection.considered == ("peer: not both sides named a GPU",)


def test_two_sides_that_allow_no_common_path_are_told_so():
    with listen("127.0.0.1", key=KEY, paths=("tcp",)) as door:
        thread = threading.Thread(target=refused, args=(door, PathUnavailable))
        thread.start()
        with pytest.raises(PathUnavailable, match="no path in common"):
            connect("127.0.0.1", door.address[1], key=KEY, paths=("shared",), timeout=5)
        thread.join()


def test_a_path_that_does_not_exist_is_an_error_before_anything_is_opened():
    with pytest.raises(TransportError, match="no such path: rocket"):
        listen("127.0.0.1", key=KEY, paths=("rocket",))


def test_nobody_there_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(TimedOut, match="nobody listens"):
        connect("127.0.0.1", port, key=KEY, timeout=0.2)
