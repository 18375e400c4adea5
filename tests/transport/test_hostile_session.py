"""A peer that has the key, and dies, lies, floods or stops reading in every state of a session."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import gdrkit.transport.connection
from gdrkit.transport import (
    AuthenticationFailed,
    Connection,
    PeerLost,
    TimedOut,
    TransportError,
    connect,
    generate_key,
    listen,
    negotiation,
)
from gdrkit.transport.connection import _MOST_OFFERS
from tests.transport.peer import descriptors, left_behind, names, running
from tests.transport.wire import MAGIC, Peer, exactly, seal

KEY = generate_key()
HELLO = negotiation.LocalSide(None, None, None, ("shared", "tcp")).hello()
RESET = struct.pack("ii", 1, 0)  # struct linger: close(2) then resets the connection
SOCKETS = 12
CLOSED_WITHIN_S = 60


def hello(path: str) -> list[Any]:
    return ["Hello", *HELLO[:4], [path], False]


def greeted(address: tuple[str, int], path: str) -> Iterator[list[socket.socket]]:
    """The states of a connector, one after another: the sockets that it has open in each."""
    sock = socket.create_connection(address)
    yield [sock]
    sock.sendall(bytes(16) + MAGIC[:7])
    yield [sock]
    sock.close()
    peer = Peer.connector(address, KEY)
    yield [peer.sock]
    peer.send(*hello(path))
    yield [peer.sock]
    assert peer.receive()[0] == "Hello" and peer.receive()[0] == "Proposal"
    peer.sock.sendall(struct.pack(">I", 50) + b'["Propos')  # a frame that is cut
    yield [peer.sock]
    peer.sock.close()
    peer = proposed(address, path)
    yield [peer.sock]
    peer.send("ProposalAnswer", "", [])
    sockets = [peer.sock]
    yield sockets
    if path == "tcp":
        for index in range(SOCKETS - 1):
            sockets.append(peer.data(index).sock)
            yield sockets


def proposed(address: tuple[str, int], path: str) -> Peer:
    peer = Peer.connector(address, KEY)
    peer.send(*hello(path))
    assert peer.receive()[0] == "Hello" and peer.receive()[0] == "Proposal"
    return peer


def held() -> tuple[int, int]:
    gc.collect()  # the frames of a caught exception
    return descriptors(), threading.active_count()


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true within a minute."""
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize(("path", "states"), [("tcp", 18), ("shared", 7)])
@pytest.mark.parametrize("resets", [False, True])
def test_a_connector_that_dies_in_any_state_leaves_nothing_and_the_next_one_is_heard(path, states, resets):
    before, rings = held(), names()
    for state in range(states):
        with listen("127.0.0.1", key=KEY, paths=(path,)) as listener:

            def die(state: int = state, listener: Any = listener) -> None:
                steps = greeted(listener.address, path)
                sockets = [next(steps) for _ in range(state + 1)][-1]
                for sock in sockets:
                    if resets:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    sock.close()

            with running(partial(listener.accept, 30)) as accepted:
                die()
                if path == "shared" and state == states - 1:  # nothing more is needed, so it is a session
                    continue
                connect(*listener.address, key=KEY, paths=(path,), timeout=30).close()
            assert isinstance(accepted[0], Connection), accepted
            accepted[0].close()
        accepted.clear()
    if path == "shared":
        with pytest.raises(PeerLost):
            accepted[0].recv(bytearray(8)).wait(30)
        accepted.pop().close()  # its error refers to frames, and these to its memory
    assert soon(lambda: held() == before), (held(), before)
    assert not left_behind(rings)


@contextlib.contextmanager
def session() -> Iterator[tuple[Connection, Peer, list[Peer]]]:
    """A connection on tcp, and its other end: the control socket, and the data sockets."""
    before = held()
    with listen("127.0.0.1", key=KEY, paths=("tcp",)) as listener:
        with running(partial(listener.accept, 30)) as accepted:
            peer = proposed(listener.address, "tcp")
            peer.send("ProposalAnswer", "", [])
            data = [peer.data(index) for index in range(SOCKETS)]
        connection = accepted.pop()
        try:
            yield connection, peer, data
        finally:
            closing = threading.Thread(target=connection.close, daemon=True)
            closing.start()
            closing.join(CLOSED_WITHIN_S)
            assert not closing.is_alive()
            for each in (peer, *data):
                with contextlib.suppress(OSError):
                    each.sock.shutdown(socket.SHUT_RDWR)  # it wakes a thread that floods
                each.sock.close()
    assert soon(lambda: held() == before), (held(), before)


def test_sockets_are_as_many_as_a_session_needs():
    with session() as (connection, _, data):
        assert connection.path == "tcp" and len(data) == SOCKETS


def header(peer: Peer, size: int) -> bytes:
    """The header of a message, sealed."""
    text = struct.pack("!QII", size, 0, 0)
    peer.sent += 1
    return text + seal(peer.secret, "connect", 1, peer.sent - 1, text)


MESSAGES = 1
"""The data socket on which a connector sends messages."""


def test_a_message_that_is_cut_ends_with_an_error_and_not_with_part_of_it():
    with session() as (connection, _, data):
        data[MESSAGES].sock.sendall(header(data[MESSAGES], 1000) + bytes(999))
        data[MESSAGES].sock.close()
        with pytest.raises(PeerLost):
            connection.recv(bytearray(1000)).wait(30)


@pytest.mark.parametrize("size", [0, 999, 1001, (1 << 64) - 1])
def test_a_header_with_another_length_is_refused_whatever_it_is(size):
    with session() as (connection, _, data):
        data[MESSAGES].sock.sendall(header(data[MESSAGES], size))
        with pytest.raises(
            TransportError, match=f"message of {size} bytes received where 1000 were expected"
        ):
            connection.recv(bytearray(1000)).wait(30)


def test_a_header_that_is_replayed_is_refused():
    with session() as (connection, _, data):
        recorded = header(data[MESSAGES], 4)
        data[MESSAGES].sock.sendall(recorded + b"once" + recorded + b"more")
        into = bytearray(4)
        connection.recv(into).wait(30)
        assert into == b"once"
        with pytest.raises(AuthenticationFailed):
            connection.recv(bytearray(4)).wait(30)


@pytest.mark.parametrize("frame", [b"\x00\x10\x00\x01", b"\xff" * 4], ids=["one more", "largest"])
def test_a_control_message_that_is_too_long_is_refused_before_it_is_read(frame):
    """It comes when the call waits for it: before, what is sent may find the connection closed."""
    with session() as (connection, peer, _), ThreadPoolExecutor() as pool:
        waiting = pool.submit(connection.exchange, bytearray(1), timeout=30)
        assert peer.receive()[0] == "Region"
        peer.sock.sendall(frame)
        with pytest.raises(TransportError, match="control message too long"):
            waiting.result(60)


def test_a_peer_that_stops_reading_data_delays_nothing_beyond_the_deadline():
    with session() as (connection, _, _):
        sending = connection.send(bytes(64 << 20))
        with pytest.raises(TimedOut):
            sending.wait(0.5)


def flood(peer: Peer, *message: Any) -> None:
    """Send a control message again and again in another thread, and read nothing."""

    def run() -> None:
        try:
            while True:
                peer.send(*message)
        except OSError:
            return

    threading.Thread(target=run).start()


def drain(peer: Peer) -> None:
    with contextlib.suppress(OSError):
        while peer.sock.recv(1 << 16):
            continue


ASKS = ("MemoryRequest", 1, False, 7, 0, 1, False)


def stall(connection: Connection, peer: Peer) -> None:
    """Ask, and read no answer, until both directions are full."""
    for sock in (connection._sock.sock, peer.sock):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 1 << 16)
    flood(peer, *ASKS)
    sent = -1
    while sent != peer.sent:
        sent = peer.sent
        time.sleep(0.5)
    assert not connection.broken


def test_a_peer_that_asks_and_reads_no_answer_delays_nothing_beyond_the_deadline():
    with session() as (connection, peer, _):
        stall(connection, peer)
        with running(lambda: connection.recv(bytearray(8)).wait(0.5)) as found:
            assert soon(lambda: found)
        assert isinstance(found[0], TimedOut) and str(found[0]) == "not done after 0.5 s"


def test_a_connection_closes_in_time_although_the_peer_reads_no_answer(monkeypatch):
    seconds = 3  # stall() takes up to one to see that nothing moves, and more on a busy machine
    monkeypatch.setattr(gdrkit.transport.connection, "_SEND_TIMEOUT", struct.pack("ll", seconds, 0))
    with session() as (connection, peer, _):
        stall(connection, peer)
        connection.close()


def test_offers_that_nobody_asked_for_do_not_pile_up():
    with session() as (connection, peer, _):
        flood(peer, "Region", 0, 1, True, True, 0, 0)
        assert soon(lambda: connection.broken is not None)
        assert str(connection.broken) == f"more than {_MOST_OFFERS} unsolicited offers"


def test_write_requests_whose_data_never_comes_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(gdrkit.transport.connection, "_MOST_WRITES", 100)
    with session() as (connection, peer, _):
        peer.send("Region", 0, 8, True, True, 0, 0)
        connection.exchange(bytearray(8), writable=True, timeout=30)
        flood(peer, "MemoryRequest", 1, True, 0, 0, 8, False)
        threading.Thread(target=drain, args=(peer,)).start()
        assert soon(lambda: connection.broken is not None)
        assert str(connection.broken) == "more than 100 write requests without their data"


def test_a_listener_that_dies_after_its_proposal_ends_connect_before_its_deadline():
    before, rings = held(), names()
    for path, steps in (("tcp", 2), ("tcp", 3), ("shared", 3)):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve(steps: int = steps, path: str = path, server: socket.socket = server) -> None:
                sock, _ = server.accept()
                with sock:
                    exactly(sock, 16)
                    peer = Peer.listener(sock, KEY)
                    assert peer.receive()[0] == "Hello"
                    peer.send(*hello(path))
                    if steps > 2:
                        rings = [f"/dev/shm/gdrkit-{os.getpid()}-none"] * 6 if path == "shared" else []
                        peer.send("Proposal", path, rings, [])
                server.close()

            with running(lambda: serve() or "done"), pytest.raises(PeerLost):
                connect(*server.getsockname(), key=KEY, paths=(path,), timeout=60)
    assert soon(lambda: held() == before), (held(), before)
    assert not left_behind(rings)
