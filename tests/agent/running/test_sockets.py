"""TCP by socket, from the real kernel: another program's counters agree."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.running import children, processes, sockets
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


def test_this_namespace_is_looked_at_first_and_last_whoever_comes_late(monkeypatch):
    """Else what its connections moved while others were entered would not count."""
    place, asked = ("net:[7]", 5), []

    def everywhere(places, deadline, own=True):
        asked.append((list(places), own))
        return [(name, [], 0.0) for name, _ in places]

    monkeypatch.setattr(sockets, "_everywhere", everywhere)
    sockets.read(lambda row: None, 0.0, 0.0, [place])
    assert asked == [([], True), ([place], False), ([place], True)]


def test_a_connection_that_moves_nothing_is_not_told():
    listening = socket.create_server(("127.0.0.1", 0))
    with listening, socket.create_connection(listening.getsockname()) as one, listening.accept()[0]:
        assert os.fstat(one.fileno()).st_ino not in sockets.by_inode(moved(lambda: None))


def moved(move) -> list[dict]:
    """The rows for an interval in which `move` ran."""
    found: list[dict] = []
    asked = [0]
    relay = children.Relay()
    processes.scan(lambda row: None, others=relay)
    sleep = time.sleep

    def during(seconds: float) -> None:
        asked[0] += 1
        move()

    sockets.time.sleep = during
    try:
        sockets.read(found.append, time.monotonic() + 30, 0.01, relay.places(time.monotonic() + 20))
    finally:
        sockets.time.sleep = sleep
        relay.close()
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
    assert found.ends == (socket.inet_aton("192.0.2.7"), struct.pack("!HH", 80, 81))


def test_an_answer_without_counts_is_no_connection_and_a_short_one_is_refused():
    assert sockets.connection(answer() + attribute(2, bytes(100))) is None
    with pytest.raises(ValueError, match="an answer of 71 bytes"):
        sockets.connection(answer()[:71])


@given(st.binary(max_size=400))
def test_any_answer_is_a_connection_or_refused(data):
    found = None
    with contextlib.suppress(ValueError):
        found = sockets.connection(data)
    assert found is None or isinstance(found, sockets.TcpConnection)


ELSEWHERE = """
import ctypes, fcntl, os, socket, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x40020000) or libc.mount(b"none", b"/", None, 0x44000, None):
    sys.exit(77)
if libc.mount(b"tmpfs", b"/dev", b"tmpfs", 0, None):
    sys.exit(77)
try:
    os.mknod("/dev/nvidia0", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
except PermissionError:
    sys.exit(77)
gpu = os.open("/dev/nvidia0", os.O_RDWR) if sys.argv[1:] else None
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
listening = socket.create_server(("127.0.0.1", 0))
one = socket.create_connection(listening.getsockname())
other = listening.accept()[0]
print(os.fstat(one.fileno()).st_ino, flush=True)
while sys.stdin.readline():
    one.sendall(bytes(200_000))
    left = 200_000
    while left:
        left -= len(other.recv(left))
    print("moved", flush=True)
"""


def test_connections_of_a_process_with_a_gpu_in_another_network_namespace_are_told():
    """And afterwards this process is in its own namespace again."""
    before = network("self")
    with started(ELSEWHERE, "with a GPU") as (child, inode):
        name = network(child.pid)
        found = moved(lambda: step(child))

    assert sockets.by_inode(found)[inode]["sent"] == 200_000
    assert {"namespace": name} in found and {"namespace": before} in found
    assert network("self") == before


def test_network_namespaces_of_processes_without_a_gpu_are_not_entered():
    with started(ELSEWHERE) as (child, inode):
        found = moved(lambda: step(child))

    assert inode not in sockets.by_inode(found)
    assert [row for row in found if "namespace" in row] == [{"namespace": network("self")}]


def test_a_namespace_is_not_entered_in_place_of_the_one_that_was_named():
    """The process that was in it has ended, and another one has its pid."""
    with started(ELSEWHERE, "with a GPU") as (child, _):
        found: list[dict] = []
        sockets.read(found.append, time.monotonic() + 30, 0.01, [("net:[1]", child.pid)])

    assert [row for row in found if "namespace" in row] == [{"namespace": network("self")}]


def network(pid: int | str) -> str:
    """The name of a process's network namespace."""
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def step(child: subprocess.Popen) -> None:
    child.stdin.write(b"\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"moved\n"


@contextlib.contextmanager
def started(code: str, *arguments: str):
    """A process in a network namespace of its own, and the inode of its connection."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-I", "-c", code, *arguments], stdin=pipe, stdout=pipe) as child:
        line = child.stdout.readline()
        if not line:
            child.wait(20)
            pytest.skip("needs CAP_SYS_ADMIN and CAP_MKNOD: run the tests as root on a machine of their own")
        yield child, int(line)
        child.stdin.close()
