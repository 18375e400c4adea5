"""Rendezvous of two processes: only with the key, and on the best common path."""

import contextlib
import errno
import re
import socket
import threading
import time

import pytest

from gdrkit.transport import (
    AuthenticationFailed,
    Listener,
    PathUnavailable,
    PeerLost,
    TimedOut,
    TransportError,
    connect,
    generate_key,
    listen,
)
from gdrkit.transport.sealed_socket import FRAME_LIMIT, SealedSocket
from tests.transport import wire
from tests.transport.peer import descriptors, peer, running

KEY = generate_key()


def refused(listener: Listener, error: type[TransportError], timeout: float = 20) -> None:
    with pytest.raises(error):
        listener.accept(timeout)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
def test_listening_on_all_addresses_is_refused(address):
    with pytest.raises((TransportError, OSError)), listen(address or "0.0.0.0", key=KEY):
        pass


def test_a_short_key_is_refused():
    with listen("127.0.0.1", key=b"short") as listener:
        thread = threading.Thread(target=refused, args=(listener, TransportError, 0.5))
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


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_address_is_host_and_port_which_peers_connect_to(host):
    with listen(host, key=KEY, paths=("tcp",)) as listener:
        assert listener.address == (host, listener._socket.getsockname()[1])
        with running(lambda: connect(*listener.address, key=KEY, paths=("tcp",))) as made:
            connection = listener.accept(30)
    with connection, made[0]:
        assert (connection.path, connection.considered, listener.rejected) == ("tcp", (), 0)


def test_a_port_that_is_in_use_is_an_error_that_keeps_nothing_open():
    with listen("127.0.0.1", key=KEY) as listener:
        before = descriptors()
        with pytest.raises(OSError) as caught:
            listen(*listener.address, key=KEY)
        assert caught.value.errno == errno.EADDRINUSE
        assert descriptors() == before


def test_a_listener_is_started_again_at_once_on_its_port():
    with listen("127.0.0.1", key=KEY, paths=("tcp",)) as listener:
        address = listener.address
        with running(lambda: wire.Peer.connector(address, KEY)) as made, pytest.raises(TimedOut):
            listener.accept(0.3)  # which closes its end first
        assert made[0].has_been_closed()
        made[0].sock.close()
    before = descriptors()
    with listen(*address, key=KEY) as again:
        assert again.address == address
    assert descriptors() == before


def test_a_name_that_means_no_address_is_the_loss_of_the_peer():
    with pytest.raises(PeerLost, match=r"^::1%no-such-link:9: Name or service not known$"):
        connect("::1%no-such-link", 9, key=KEY, timeout=5)


def test_a_listener_that_does_not_accept_is_not_connected_to():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as stack:
        host, port = server.getsockname()
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex((host, port))
        with pytest.raises(PeerLost, match=rf"^{host}:{port}: timed out$"):
            connect(host, port, key=KEY, timeout=0.3)


def test_a_port_that_opens_later_is_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with running(lambda: connect("127.0.0.1", port, key=KEY, paths=("tcp",), timeout=30)) as made:
        time.sleep(0.2)
        with listen("127.0.0.1", port, key=KEY, paths=("tcp",)) as listener:
            connection = listener.accept(30)
    with connection, made[0]:
        assert connection.path == "tcp"


def test_the_port_that_stays_closed_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(TimedOut, match=re.escape(f"timed out: no listener on 127.0.0.1:{port}")):
        connect("127.0.0.1", port, key=KEY, timeout=0.2)
