"""A listener's handshakes side by side: who is heard, who is refused and why, and within which bounds."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from gdrkit.transport import TimedOut, TransportError, generate_key, reception
from gdrkit.transport.reception import Arrival, Reception, _source, is_unspecified
from tests.transport import wire

KEY = generate_key()


class Desk:
    """A reception, its address, and one thread that serves it."""

    def __init__(self, listening: socket.socket) -> None:
        self.address = listening.getsockname()
        self.reception = Reception(listening, KEY)

    def serve_until(self, done: Callable[[], bool]) -> None:
        limit = time.monotonic() + 60
        while not done():
            assert time.monotonic() < limit
            with contextlib.suppress(TimedOut):
                self.reception.next(time.monotonic() + 0.05, data=True)

    def meet(self, work: Callable[[], wire.Peer], *, data: bool = False) -> tuple[Arrival, wire.Peer]:
        """What arrives while a peer does its work in another thread, and that peer."""
        made: list[wire.Peer] = []
        thread = threading.Thread(target=lambda: made.append(work()), daemon=True)
        thread.start()
        arrival = self.reception.next(time.monotonic() + 30, data=data)
        thread.join(30)
        return arrival, made[0]

    def new_session(self) -> tuple[Arrival, wire.Peer]:
        return self.meet(lambda: wire.Peer.connector(self.address, KEY))

    def rejects(self, number: int = 1) -> str:
        """Why it rejected the last connection, once it has rejected that many."""
        self.serve_until(lambda: self.reception.rejected >= number)
        assert self.reception.rejected == number
        return self.reception.last

    def stranger(self, first: bytes = b"", source: str = "") -> socket.socket:
        sock = socket.create_connection(self.address, 30, (source, 0) if source else None)
        sock.sendall(first)
        return sock


@pytest.fixture
def desk() -> Iterator[Desk]:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        made = Desk(listening)
        yield made
        made.reception.close()


def test_nobody_came(desk):
    with pytest.raises(TimedOut) as caught:
        desk.reception.next(time.monotonic(), data=False)
    assert str(caught.value) == "timed out: no authenticated peer"


def test_a_new_session_arrives_with_the_secret_of_its_handshake(desk):
    arrival, peer = desk.new_session()
    assert (arrival.channel, arrival.secret) == (None, peer.secret)
    assert arrival.sock.gettimeout() is None
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
    options += [(socket.IPPROTO_TCP, row) for row in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)]
    options += [(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)]
    assert [arrival.sock.getsockopt(*option) for option in options] == [1, 1, 5, 2, 3]
    assert (desk.reception.rejected, desk.reception.last) == (0, "")


def test_what_follows_the_proof_is_left_for_the_session(desk):
    def hasty() -> wire.Peer:
        sock, mine = desk.stranger(bytes(16) + wire.MAGIC), bytes(range(32))
        for byte in mine:
            time.sleep(0.001)  # each byte alone
            sock.sendall(bytes([byte]))
        theirs = wire.exactly(sock, 19 + 32)[19:]
        sock.sendall(wire.proof(KEY, b"connect", b"control", mine, theirs) + b"and more")
        return wire.Peer(sock, "connect", wire.session(KEY, b"control", mine, theirs))

    arrival, peer = desk.meet(hasty)
    assert arrival.sock.recv(100) == b"and more"
    assert arrival.secret == peer.secret


def test_a_data_connection_waits_until_it_is_asked_for(desk):
    arrival, peer = desk.new_session()
    desk.reception.expect_data(arrival.secret, 6)
    data, made = desk.meet(lambda: peer.data(5), data=True)
    assert (data.channel, data.secret) == (5, made.secret)
    waiting = threading.Thread(target=lambda: peer.data(0), daemon=True)
    waiting.start()
    control, other = desk.new_session()
    waiting.join(1)
    assert (control.channel, control.secret) == (None, other.secret)
    found, _ = desk.meet(lambda: peer, data=True)
    waiting.join(30)
    assert found.channel == 0


def test_ending_a_session_closes_its_data_connections_and_nothing_else(desk):
    arrival, peer = desk.new_session()
    desk.reception.expect_data(arrival.secret, 6)
    made: dict[str, wire.Peer] = {}

    def arrive() -> None:
        made["data"] = peer.data(0)
        made["session"] = wire.Peer.connector(desk.address, KEY)

    thread = threading.Thread(target=arrive, daemon=True)
    thread.start()
    limit = time.monotonic() + 30
    while len(desk.reception._ready) < 2:
        desk.reception._serve(limit)
    thread.join(30)
    desk.reception.expect_data(arrival.secret, 6)
    assert made["data"].has_been_closed()
    found = desk.reception.next(limit, data=False)
    assert (found.channel, found.secret) == (None, made["session"].secret)
    assert desk.reception.rejected == 0


UNKNOWN_SESSION = "a data connection of an unknown session"


@pytest.mark.parametrize("index", [6, 255])
def test_a_data_connection_beyond_the_count_is_refused(desk, index):
    arrival, peer = desk.new_session()
    desk.reception.expect_data(arrival.secret, 6)
    desk.stranger(wire.named(peer.secret, index))
    assert desk.rejects() == UNKNOWN_SESSION


def test_a_data_connection_of_no_session_or_another_one_is_refused(desk):
    desk.stranger(wire.named(b"", 0))  # no session: its secret is not empty
    assert desk.rejects() == UNKNOWN_SESSION
    arrival, peer = desk.new_session()
    desk.reception.expect_data(arrival.secret, 6)
    for number, other in enumerate((KEY, b""), 2):
        desk.stranger(wire.named(other, 0))
        assert desk.rejects(number) == UNKNOWN_SESSION
    desk.reception.expect_data(None)
    desk.stranger(wire.named(peer.secret, 0))
    assert desk.rejects(4) == UNKNOWN_SESSION


def test_a_stranger_who_leaves_or_breaks_off_is_counted_with_the_reason(desk):
    desk.stranger().close()
    assert desk.rejects() == "the other side closed the connection"
    sock = desk.stranger(bytes(16) + wire.MAGIC + bytes(32))
    sock.shutdown(socket.SHUT_WR)
    assert desk.rejects(2) == "the other side hung up: the keys probably differ"
    assert wire.was_closed(sock)
    sock = desk.stranger(b"x")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    desk.serve_until(lambda: bool(desk.reception._pending))
    sock.close()
    assert desk.rejects(3) == "the connection broke: Connection reset by peer"
    with pytest.raises(TimedOut) as caught:
        desk.reception.next(time.monotonic(), data=False)
    assert str(caught.value) == (
        "timed out: no authenticated peer (3 connections rejected, the last one: the connection broke:"
        " Connection reset by peer)"
    )


def test_one_rejected_connection_is_told_in_the_singular(desk):
    desk.stranger(b"GET / HTTP/1.1\r\n" * 3)
    assert desk.rejects() == UNKNOWN_SESSION
    with pytest.raises(TimedOut) as caught:
        desk.reception.next(time.monotonic(), data=False)
    assert str(caught.value) == (
        f"timed out: no authenticated peer (1 connection rejected, the last one: {UNKNOWN_SESSION})"
    )


def test_a_handshake_that_takes_too_long_ends_while_others_are_awaited(desk, monkeypatch):
    monkeypatch.setattr(reception, "HANDSHAKE_SECONDS", 0.05)
    silent, ended = desk.stranger(), []

    def after_the_silent_one() -> wire.Peer:
        ended.append(wire.was_closed(silent))
        monkeypatch.setattr(reception, "HANDSHAKE_SECONDS", 30)
        return wire.Peer.connector(desk.address, KEY)

    desk.meet(after_the_silent_one)
    assert ended == [True]
    assert (desk.reception.rejected, desk.reception.last) == (1, "the handshake took too long")


def test_the_time_in_which_nobody_served_is_not_that_of_a_handshake(desk, monkeypatch):
    early = desk.stranger(b"x")
    desk.serve_until(lambda: bool(desk.reception._pending))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 1000)
    assert not next(iter(desk.reception._pending)).getblocking()  # no stranger makes the others wait
    early.sendall(bytes(15) + wire.MAGIC + bytes(32))
    with pytest.raises(TimedOut, match=r"^timed out: no authenticated peer$"):
        desk.reception.next(now + 1000, data=False)
    (pending,) = desk.reception._pending.values()
    assert 1000 < pending.expires - now <= 1005.1


def test_a_source_has_at_most_32_handshakes(desk):
    strangers = [desk.stranger() for _ in range(32)]
    desk.serve_until(lambda: len(desk.reception._pending) == 32)
    assert desk.reception.rejected == 0
    other = desk.stranger(source="127.0.0.2")
    desk.serve_until(lambda: len(desk.reception._pending) == 33)
    assert desk.reception.rejected == 0
    strangers.append(desk.stranger())
    assert desk.rejects() == "too many unauthenticated connections from 127.0.0.1"
    assert wire.was_closed(strangers[0])
    assert len(desk.reception._pending) == 33
    for sock in (*strangers, other):
        sock.close()


def test_all_sources_have_at_most_128_handshakes_and_the_one_with_most_gives_way(desk):
    counts = {"127.0.0.2": 25, "127.0.0.3": 30, "127.0.0.4": 25, "127.0.0.5": 25, "127.0.0.6": 23}
    strangers = {name: [desk.stranger(source=name) for _ in range(most)] for name, most in counts.items()}
    desk.serve_until(lambda: len(desk.reception._pending) == 128)
    assert desk.reception.rejected == 0
    last = desk.stranger(source="127.0.0.7")
    assert desk.rejects() == "too many unauthenticated connections from 127.0.0.3"
    assert wire.was_closed(strangers["127.0.0.3"][0])
    for sock in (last, *(sock for row in strangers.values() for sock in row)):
        sock.close()


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%lo", "fe80::/64"),
        ("::1", "::/64"),
    ],
)
def test_an_ipv6_site_is_one_source(address, source):
    assert _source(address) == source


@pytest.mark.parametrize(
    ("address", "all_of_them"),
    [
        ("0.0.0.0", True),
        ("::", True),
        ("::%lo", True),
        ("::ffff:0.0.0.0", True),
        ("::ffff:192.0.2.7", False),
        ("192.0.2.7", False),
        ("fe80::1%lo", False),
    ],
)
def test_all_addresses_are_told_from_one(address, all_of_them):
    assert is_unspecified(address) is all_of_them


@contextlib.contextmanager
def no_free_descriptor() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_one = os.dup(0)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_a_free_descriptor_the_oldest_handshake_ends(desk):
    first, second = desk.stranger(), desk.stranger()
    desk.serve_until(lambda: len(desk.reception._pending) == 2)
    third = desk.stranger()
    with no_free_descriptor():
        assert desk.rejects() == "no room for more connections: Too many open files"
        desk.serve_until(lambda: len(desk.reception._pending) == 2)
    assert wire.was_closed(first)
    for sock in (second, third):
        sock.close()


def test_without_a_free_descriptor_and_a_handshake_it_is_an_error(desk):
    with (
        desk.stranger(),
        no_free_descriptor(),
        pytest.raises(TransportError, match=r"^cannot accept a connection: Too many open files$"),
    ):
        desk.reception.next(time.monotonic() + 30, data=False)


def test_closing_ends_handshakes_and_sessions_that_nobody_took(desk):
    pending = desk.stranger()
    desk.serve_until(lambda: bool(desk.reception._pending))
    made: list[wire.Peer] = []
    thread = threading.Thread(
        target=lambda: made.append(wire.Peer.connector(desk.address, KEY)), daemon=True
    )
    thread.start()
    desk.serve_until(lambda: bool(desk.reception._ready))
    thread.join(30)
    desk.reception.close()
    assert wire.was_closed(pending) and made[0].has_been_closed()
    desk.reception.close()
