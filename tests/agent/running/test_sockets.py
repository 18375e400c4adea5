"""TCP by socket, from the real kernel: another program's counters agree."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.running import sockets
from tests.agent.running.kernel import attribute


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_what_a_connection_moved_is_told_by_its_inode(family, address):
    """The bytes are those that were written, whichever end is asked."""
    try:
        listening = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("no IPv6 on loopback: sysctl net.ipv6.conf.lo.disable_ipv6=0")
    with (
        listening,
        socket.create_connection(listening.getsockname()[:2]) as one,
        listening.accept()[0] as other,
    ):
        inodes = [os.fstat(end.fileno()).st_ino for end in (one, other)]
        found = moved(lambda: (one.sendall(bytes(300_000)), read_all(other, 300_000)))

    rows = sockets.by_inode(found)
    assert [rows[inode]["here"] for inode in inodes] == [True, True]
    assert rows[inodes[0]]["sent"] == rows[inodes[1]]["received"] == 300_000
    assert rows[inodes[0]]["received"] == 0


def test_a_connection_that_moves_nothing_is_not_told():
    listening = socket.create_server(("127.0.0.1", 0))
    with listening, socket.create_connection(listening.getsockname()) as one, listening.accept()[0]:
        assert os.fstat(one.fileno()).st_ino not in sockets.by_inode(moved(lambda: None))


def moved(move) -> list[dict]:
    """The rows for an interval in which `move` ran."""
    found: list[dict] = []
    asked = [0]
    sleep = time.sleep

    def during(seconds: float) -> None:
        asked[0] += 1
        move()

    sockets.time.sleep = during
    try:
        sockets.read(found.append, time.monotonic() + 30, 0.01)
    finally:
        sockets.time.sleep = sleep
    assert asked == [1]
    return found


def read_all(end: socket.socket, count: int) -> None:
    got = 0
    while got < count:
        got += len(end.recv(1 << 16))
    threading.Event().wait(0.05)  # until the last acknowledgement has come


@pytest.mark.parametrize(
    ("peer", "here"),
    [("127.0.0.9", True), ("192.0.2.7", True), ("192.0.2.8", False)],
)
def test_a_peer_is_here_if_its_address_is_one_of_this_nodes(peer, here):
    assert sockets.is_here(socket.inet_aton(peer), {socket.inet_aton("192.0.2.7")}) is here


def answer(family: int = socket.AF_INET6, address: bytes = bytes(10) + b"\xff\xff\xc0\x00\x02\x07") -> bytes:
    head = bytes([family, 1, 0, 0]) + struct.pack("!HH", 80, 81) + address + address + bytes(12)
    return head + bytes(4 * 4) + struct.pack("=I", 99)


def test_an_ipv4_peer_of_an_ipv6_socket_is_compared_as_ipv4():
    data = answer() + attribute(2, bytes(120) + struct.pack("=QQ", 5, 6))

    found = sockets.connection(data)
    assert (found.inode, found.local, found.sent, found.received) == (
        99,
        socket.inet_aton("192.0.2.7"),
        5,
        6,
    )


def test_an_answer_without_counts_is_no_connection_and_a_short_one_is_refused():
    assert sockets.connection(answer() + attribute(2, bytes(100))) is None
    with pytest.raises(ValueError, match="an answer of 71 bytes"):
        sockets.connection(answer()[:71])


@given(st.binary(max_size=400))
def test_any_answer_is_a_connection_or_refused(data):
    try:
        sockets.connection(data)
    except ValueError:
        assert True
