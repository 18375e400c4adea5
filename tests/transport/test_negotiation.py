"""Negotiation with a peer that follows the description: each message of each side, in every order."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

import pytest

from gdrkit.transport import (
    PathUnavailable,
    PeerLost,
    TimedOut,
    TransportError,
    connect,
    generate_key,
    listen,
)
from gdrkit.transport.rendezvous import Listener
from gdrkit.transport.ring import _MAGIC, Ring
from gdrkit.transport.shared_file import SharedFile
from tests.transport import wire
from tests.transport.peer import descriptors, running

KEY = generate_key()


def shared_memory() -> list[str]:
    """The shared memory that this process has mapped or open."""
    with open("/proc/self/maps") as maps:
        rows = [row.split()[-1] for row in maps if "/dev/shm/" in row]
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            rows.append(os.readlink(f"/proc/self/fd/{name}"))
    return [row for row in rows if row.startswith("/dev/shm/")]


def of(*paths: str, machine: str = "another machine") -> list[Any]:
    """A hello."""
    return ["Hello", machine, "", "", "", list(paths), False]


def here(*paths: str) -> list[Any]:
    """The hello of a process of this machine."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return of(*paths, machine=file.read().strip())


def test_a_peer_of_the_description_completes_a_connection():
    def complete() -> list[wire.Peer]:
        control = wire.Peer.connector(listener.address, KEY)
        control.send(*of("tcp"))
        hello = control.receive()
        assert hello == [*here("tcp")[:2], os.readlink("/proc/self/ns/pid"), "", "", ["tcp"], False]
        assert control.receive() == ["Proposal", "tcp", [], []]
        control.send("ProposalAnswer", "", [])
        made = {index: control.data(index) for index in (3, 1, 5)}
        assert control.data(3).has_been_closed()  # there is one already
        made |= {index: control.data(index) for index in (0, 4, 2, *range(6, 12))}
        return [control, made[0], made[1], made]

    with listen("127.0.0.1", key=KEY, paths=("tcp",)) as listener, running(complete) as peers:
        connection = listener.accept(30)
        assert (connection.path, connection.considered, listener.rejected) == ("tcp", (), 1)
        assert listener._reception.last == "a data connection that exists already"
    with connection:
        control, zero, one, *_ = peers[0]
        connection.send(b"from link 0")
        header, text = wire.exactly(zero.sock, 16 + 32), wire.exactly(zero.sock, 11)
        assert text == b"from link 0"
        assert header[16:] == wire.seal(zero.secret, "listen", 1, 0, header[:16])
        text = header[:16]
        one.sock.sendall(text + wire.seal(one.secret, "connect", 1, 0, text) + b"from link 1")
        into = bytearray(11)
        connection.recv(into).wait(30)
        assert into == b"from link 1"
        large = os.urandom((4 << 20) + 1)
        sending = connection.send(large)
        wire.exactly(zero.sock, 16 + 32)
        each = -(-len(large) // 4)
        for place, index in enumerate((0, 6, 8, 10)):  # one part on each of the listener's links
            part = large[place * each : (place + 1) * each]
            assert wire.exactly(peers[0][3][index].sock, len(part)) == part
        sending.wait(30)
        control.send("Bye")


def end_the_accept_of(listener: Listener) -> None:
    """By a peer that has no path in common."""
    peer = wire.Peer.connector(listener.address, KEY)
    peer.send(*of())
    assert peer.has_been_closed()


def served(*script: Any, paths: tuple[str, ...] = ("tcp",)) -> tuple[list[Any], Any, Listener]:
    """What a listener does with a peer that follows a script of messages to send, or numbers to receive:
    what the peer received and what `accept` gave.
    """
    received: list[Any] = []

    def follow() -> wire.Peer:
        control = wire.Peer.connector(listener.address, KEY)
        for row in script:
            if row is None:
                received.append(control.receive())
            else:
                control.send(*row)
        return control

    with listen("127.0.0.1", key=KEY, paths=paths) as listener, running(follow) as peers:
        try:
            result: Any = listener.accept(60)
        except TransportError as error:
            result = error
    assert peers[0].has_been_closed()
    return received, result, listener


def test_a_refused_path_is_followed_by_the_next_best():
    before = shared_memory()
    received, error, _ = served(
        here("shared", "tcp"), None, None, ("ProposalAnswer", "not today", []),
        None, ("ProposalAnswer", "nor this", []), None, paths=("verbs", "shared", "tcp"),
    )  # fmt: skip
    assert [row[1] for row in received[1:]] == ["shared", "tcp", ""]
    assert len(received[1][2]) == 6 and received[2][2:] == received[3][2:] == [[], []]
    assert type(error) is PathUnavailable
    assert str(error) == "verbs: not allowed on both sides; shared: not today; tcp: nor this"
    assert shared_memory() == before


def test_no_path_at_all():
    received, error, _ = served(of("tcp"), None, None, paths=())
    assert (received[1], str(error)) == (["Proposal", "", [], []], "no path was allowed")
    assert type(error) is PathUnavailable


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ([("Bye",)], "the other side sent Bye where Hello was expected"),
        (
            [here("shared"), None, None, ("Bye",)],
            "the other side sent Bye where ProposalAnswer was expected",
        ),
        ([("Hello", "too short")], "invalid control message: Hello must have 6 fields"),
    ],
)
def test_a_peer_that_says_something_else_is_rejected_and_the_listener_continues(script, why):
    before = shared_memory()

    def follow() -> None:
        control = wire.Peer.connector(listener.address, KEY)
        for row in script:
            control.send(*row) if row else control.receive()
        assert control.has_been_closed()
        end_the_accept_of(listener)

    with (
        listen("127.0.0.1", key=KEY, paths=("shared",)) as listener,
        running(follow),
        pytest.raises(PathUnavailable, match=r"^shared: not allowed on both sides$"),
    ):
        listener.accept(60)  # the next peer
    assert (listener.rejected, listener._reception.last) == (1, why)
    assert shared_memory() == before


def test_a_session_that_failed_has_no_data_connections():
    def fail() -> None:
        control = wire.Peer.connector(listener.address, KEY)
        control.send(*of("tcp"))
        control.receive(), control.receive()
        control.send("Bye")
        assert control.has_been_closed()
        with pytest.raises(ConnectionResetError):
            control.data(0)
        end_the_accept_of(listener)

    with (
        listen("127.0.0.1", key=KEY, paths=("tcp",)) as listener,
        running(fail),
        pytest.raises(PathUnavailable),
    ):
        listener.accept(60)
    assert listener.rejected == 2
    assert listener._reception.last == "a data connection of an unknown session"


def test_data_connections_that_never_come_end_with_those_that_came():
    def begin() -> wire.Peer:
        control = wire.Peer.connector(listener.address, KEY)
        control.send(*of("tcp"))
        control.receive(), control.receive()
        control.send("ProposalAnswer", "", [])
        data = control.data(0)
        assert data.has_been_closed() and control.has_been_closed()
        return control

    with (
        listen("127.0.0.1", key=KEY, paths=("tcp",)) as listener,
        running(begin),
        pytest.raises(TimedOut, match=r"^timed out: no authenticated peer"),
    ):
        listener.accept(3)


def offered(*script: Any, paths: tuple[str, ...] = ("tcp",), timeout: float = 30) -> tuple[list[Any], Any]:
    """What `connect` does with a listener that follows a script, and what that received."""
    received: list[Any] = []

    def follow() -> wire.Peer:
        sock, _ = server.accept()
        assert wire.exactly(sock, 16) == bytes(16)
        control = wire.Peer.listener(sock, KEY)
        for row in script:
            if row is None:
                received.append(control.receive())
            else:
                control.send(*row)
        return control

    with socket.create_server(("127.0.0.1", 0)) as server, running(follow) as peers:
        try:
            result: Any = connect(
                "127.0.0.1", server.getsockname()[1], key=KEY, paths=paths, timeout=timeout
            )
        except TransportError as error:
            result = error
    assert peers[0].has_been_closed()
    peers[0].sock.close()
    return received, result


def test_each_path_that_the_connector_cannot_use_is_answered_with_the_reason():
    file, ring = SharedFile(anonymous=True), Ring.create(ring_bytes=1 << 20, anonymous=True)
    before = shared_memory()
    received, error = offered(
        None, here("shared", "tcp"), ("Proposal", "shared", [], []), None,
        ("Proposal", "shared", [ring.path, *[file.path] * 5], []), None,
        ("Proposal", "verbs", [], []), None, ("Proposal", "", [], []), paths=("shared",),
    )  # fmt: skip
    whys = ["the other side named no rings", f"{file.path} is not a ring", "not allowed on both sides"]
    assert shared_memory() == before
    file.unlink(), ring.close()
    assert received[1:] == [["ProposalAnswer", why, []] for why in whys]
    assert type(error) is PathUnavailable
    assert str(error) == f"shared: {whys[0]}; shared: {whys[1]}; verbs: {whys[2]}"


def test_a_ring_that_cannot_be_mapped_is_answered_with_the_reason():
    """It names more memory than this process can address."""
    file, size = SharedFile(anonymous=True), 1 << 50
    os.truncate(file.descriptor, size + (1 << 20))
    os.pwrite(file.descriptor, _MAGIC.to_bytes(8, "little") + size.to_bytes(8, "little"), 0)
    received, error = offered(
        None, here("shared"), ("Proposal", "shared", [file.path] * 6, []), None, ("Proposal", "", [], []),
        paths=("shared",),
    )  # fmt: skip
    file.unlink()
    why = "1073741824 MiB of shared memory cannot be mapped: Cannot allocate memory"
    assert received[1:] == [["ProposalAnswer", why, []]]
    assert type(error) is PathUnavailable


@pytest.mark.parametrize("first", [("Bye",), ("Proposal", "tcp", [], [])])
def test_a_listener_that_does_not_greet_is_no_peer(first):
    _, error = offered(None, first)
    assert type(error) is PeerLost
    assert str(error) == f"the other side sent {first[0]} where Hello was expected"


def test_a_listener_that_takes_no_data_connections_is_lost_and_nothing_stays_open():
    before = descriptors()
    _, error = offered(None, of("tcp"), ("Proposal", "tcp", [], []), None, timeout=1)
    assert isinstance(error, TransportError) and not isinstance(error, PathUnavailable)
    del error
    assert descriptors() == before
