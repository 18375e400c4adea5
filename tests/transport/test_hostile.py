"""Attacks on connections: strangers who hold up a listener, and a man in the middle of a connection."""

import contextlib
import functools
import itertools
import os
import selectors
import socket
import subprocess
import sys
import threading
import time

import pytest

from gdrkit.transport import (
    AuthenticationFailed,
    TimedOut,
    TransportError,
    connect,
    generate_key,
    listen,
    negotiation,
    protocol,
)
from gdrkit.transport.handshake import MAGIC, NEW_SESSION, authenticate, authentication
from gdrkit.transport.reception import MOST_PER_SOURCE, is_unspecified
from gdrkit.transport.sealed_socket import TAG_BYTES, SealedSocket
from tests.transport.intruder import CONNECTOR_SENDS, TO_CONNECTOR, TO_LISTENER, intruded
from tests.transport.peer import names
from tests.transport.wire import was_closed

KEY = generate_key()
SEAL = "does not have the other side's seal"
ZEROS_AND_MORE = NEW_SESSION + MAGIC + bytes(64)


@contextlib.contextmanager
def in_thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield thread
    thread.join(120)
    assert not thread.is_alive()


@contextlib.contextmanager
def without_hanging(done):
    """Fails if the block lasts for a minute, of which it needs a second or two: no speed is measured.

    `done` then ends what the attacker does, and with it the block."""
    late = threading.Timer(60, done.set)
    late.start()
    yield
    assert not done.is_set(), "the attacker ended it, not the deadline"
    late.cancel()
    done.set()


def trickle(sock, data, done):
    """Send one byte after another, slowly, and without an end until `done`."""
    with contextlib.suppress(OSError):
        for byte in itertools.chain(data, itertools.repeat(0)):
            if done.wait(0.1):
                return
            sock.sendall(bytes([byte]))


@pytest.mark.parametrize("data", [ZEROS_AND_MORE, bytes(200)], ids=["plausible", "zeros"])
def test_a_stranger_who_sends_byte_by_byte_does_not_prolong_accept(data):
    done = threading.Event()
    with (
        listen("127.0.0.1", key=KEY) as listener,
        socket.create_connection(listener.address) as stranger,
        in_thread(lambda: trickle(stranger, data, done)),
        without_hanging(done),
        pytest.raises(TimedOut),
    ):
        listener.accept(1)


def test_a_peer_that_sends_byte_by_byte_after_it_authenticated_does_not_prolong_accept():
    done = threading.Event()

    def slow():
        with socket.create_connection(listener.address) as sock:
            sock.sendall(NEW_SESSION)
            authenticate(sock, authentication(KEY, "connect"), time.monotonic() + 10)
            trickle(sock, bytes(3) + b"\xff" + bytes(200), done)

    with (
        listen("127.0.0.1", key=KEY) as listener,
        in_thread(slow),
        without_hanging(done),
        pytest.raises(TimedOut),
    ):
        listener.accept(1.5)


def test_a_listener_that_sends_byte_by_byte_does_not_prolong_connect():
    done = threading.Event()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        in_thread(lambda: trickle(server.accept()[0], ZEROS_AND_MORE[16:], done)),
        without_hanging(done),
        pytest.raises(TimedOut),
    ):
        connect("127.0.0.1", server.getsockname()[1], key=KEY, timeout=1)


@pytest.mark.parametrize("count", [16, 64, 100])
def test_silent_sockets_do_not_shut_out_the_peer_that_has_the_key(count):
    with listen("127.0.0.1", key=KEY, paths=("tcp",)) as listener, contextlib.ExitStack() as stack:
        arrive = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in arrive:
            sock.setblocking(False)
            sock.connect_ex(listener.address)

        def join():
            connect("127.0.0.1", listener.address[1], key=KEY, paths=("tcp",), timeout=60).close()

        with in_thread(join):
            listener.accept(60).close()
        assert listener.rejected >= count - MOST_PER_SOURCE


def test_beyond_the_bound_of_a_source_its_oldest_handshake_ends():
    with listen("127.0.0.1", key=KEY) as listener, contextlib.ExitStack() as stack:
        strangers = [
            stack.enter_context(socket.create_connection(listener.address))
            for _ in range(MOST_PER_SOURCE + 2)
        ]
        with pytest.raises(TimedOut, match=r"2 connections rejected.*too many unauthenticated"):
            listener.accept(0.5)
        with selectors.DefaultSelector() as selector:
            for sock in strangers:
                selector.register(sock, selectors.EVENT_READ)
            assert [key.fileobj for key, _ in selector.select(0)] == strangers[:2]


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "0", "0x0", "::", "0::0", "::0.0.0.0", "::ffff:0.0.0.0", "::ffff:0:0", "0:0:0:0:0:ffff:0:0"],
)
def test_every_spelling_of_all_addresses_is_refused(address):
    with pytest.raises(TransportError, match="listening on all addresses is not allowed"):
        listen(address, key=KEY)
    assert not is_unspecified("::ffff:127.0.0.1") and not is_unspecified("fe80::1%lo")


OLDER = {
    4: "17c5e18e9d87b43ab284be45c9cade15126dbd337ecb9c5eb09205f57471adfb",
    5: "0df58d30cd418df9024c4f3ef327d304c21b579336e4359311525837566c7942",
}
"""The nonces of connectors of these versions, which were recorded (commits 28a4d911 and be932f19)."""


@pytest.mark.parametrize("version", OLDER)
def test_a_peer_of_an_older_version_gets_one_clear_line(version):
    recorded = b"gdrkit-transport/%d\n" % version + bytes.fromhex(OLDER[version])
    why = rf"the other side speaks version {version} .*, this side version {protocol.VERSION}; install"
    with listen("127.0.0.1", key=KEY) as listener, socket.create_connection(listener.address) as sock:
        sock.sendall(NEW_SESSION + recorded)
        with pytest.raises(TimedOut, match=why):
            listener.accept(0.5)
        assert sock.recv(len(MAGIC)) == MAGIC  # so that it can say the same
        assert was_closed(sock)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        in_thread(lambda: server.accept()[0].sendall(recorded)),
        pytest.raises(AuthenticationFailed, match=why),
    ):
        connect("127.0.0.1", server.getsockname()[1], key=KEY, timeout=60)


def test_a_listener_goes_on_after_a_peer_of_an_older_version():
    with (
        listen("127.0.0.1", key=KEY, paths=("tcp",)) as listener,
        socket.create_connection(listener.address) as old,
    ):
        old.sendall(NEW_SESSION + b"gdrkit-transport/4\n" + bytes(32))
        join = functools.partial(connect, *listener.address, key=KEY, paths=("tcp",))
        with in_thread(lambda: join().close()):
            listener.accept(20).close()
        assert listener.rejected == 1


def twice(frame):
    return [frame, frame]


def altered(frame):
    return [frame[: -TAG_BYTES - 3] + b"9" + frame[-TAG_BYTES - 2 :]]


def altered_tag(frame):
    return [frame[:-1] + bytes([frame[-1] ^ 1])]


@pytest.mark.parametrize("way", [TO_LISTENER, TO_CONNECTOR])
@pytest.mark.parametrize("tamper", [twice, altered, altered_tag])
def test_a_control_frame_that_was_changed_or_repeated_breaks_the_connection(way, tamper):
    with intruded() as (listener, connector, intruder):
        intruder.frame = lambda found, frame: tamper(frame) if found == way else [frame]
        victim, other = (listener, connector) if way == TO_LISTENER else (connector, listener)
        other.send_control(protocol.Region(0, 10, True, True))
        with pytest.raises(AuthenticationFailed, match=SEAL):
            victim.exchange(bytearray(10), timeout=5)
            victim.exchange(bytearray(10), timeout=5)


def test_control_frames_in_another_order_break_the_connection():
    held = []

    def swap(way, frame):
        if way == TO_CONNECTOR:
            return [frame]
        held.append(frame)
        return held[::-1] if len(held) == 2 else []

    with intruded() as (listener, connector, intruder):
        intruder.frame = swap
        for token in (1, 2):
            connector.send_control(protocol.Region(token, 10, True, True))
        with pytest.raises(AuthenticationFailed, match=SEAL):
            listener.exchange(bytearray(10), timeout=5)


def test_a_control_frame_that_is_sent_back_to_its_sender_breaks_the_connection():
    with intruded() as (_, connector, intruder):

        def reflect(way, frame):
            if way == TO_LISTENER:
                intruder.control[TO_CONNECTOR].sendall(frame)
            return []

        intruder.frame = reflect
        with pytest.raises(AuthenticationFailed, match=SEAL):
            connector.exchange(bytearray(10), timeout=5)


def test_an_injected_read_request_reads_nothing():
    with intruded() as (listener, connector, intruder):
        secret = b"exposed to the peer alone" * 100
        with in_thread(lambda: listener.exchange(secret, writable=False)):
            connector.exchange(bytearray(1))
        body = protocol.encode(protocol.MemoryRequest(1, False, 0, 0, len(secret), False))
        intruder.control[TO_LISTENER].sendall(len(body).to_bytes(4, "big") + body + bytes(TAG_BYTES))
        deadline = time.monotonic() + 5
        while listener.broken is None and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(AuthenticationFailed, match=SEAL):
            listener.send(b"x")
        assert secret[:25] not in intruder.seen


def change(offset):
    """Change one byte of what the connector sends, at an offset of its data socket."""
    passed = [0]

    def data(index, way, data):
        if (index, way) != (CONNECTOR_SENDS, TO_LISTENER):
            return data
        at, passed[0] = offset - passed[0], passed[0] + len(data)
        if 0 <= at < len(data):
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        return data

    return data


HEADER = 16 + TAG_BYTES


@pytest.mark.parametrize("offset", [0, 15, HEADER - 1])
def test_a_header_that_was_changed_is_refused(offset):
    with intruded() as (listener, connector, intruder):
        intruder.data = change(offset)
        connector.send(bytes(1000))
        with pytest.raises(AuthenticationFailed, match=SEAL):
            listener.recv(bytearray(1000)).wait(5)


@pytest.mark.parametrize("offset", [0, 500_000, 999_999, 1_000_000 + TAG_BYTES - 1])
def test_data_that_was_changed_is_refused_if_either_side_asked_for_that(offset):
    with intruded(authenticate_data=True) as (listener, connector, intruder):
        connector.send(b"good" * 100_000)
        into = bytearray(400_000)
        listener.recv(into).wait(5)
        assert into == b"good" * 100_000
        intruder.data = change(HEADER + offset)
        connector.send(bytes(1_000_000))
        with pytest.raises(AuthenticationFailed, match=SEAL):
            listener.recv(bytearray(1_000_000)).wait(5)


def test_data_of_every_size_arrives_with_its_seal():
    with intruded(authenticate_data=True) as (listener, connector, _):
        for size in (0, 1, 262_144, 262_145, 3_000_000):
            data, into = os.urandom(size), bytearray(size)
            connector.send(data, integrity=True)
            listener.recv(into).wait(10)
            assert into == data


def test_both_ends_detect_a_machine_that_dies_silently():
    with intruded() as (listener, connector, _):
        for end in (listener, connector):
            lanes = [lane for channel in end._channels for lane in (*channel._out, *channel._into)]
            for sealed in (end._sock, *(lane.sealed for lane in lanes)):
                assert sealed.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                idle, interval, count = (
                    sealed.sock.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                )
                assert idle + interval * count == 11


LISTENER = """
import sys
from gdrkit.transport import listen
with listen("127.0.0.1", key=bytes.fromhex(sys.argv[1]), paths=("shared",)) as listener:
    print(listener.address[1], flush=True)
    listener.accept(60)
"""


def test_a_listener_that_is_killed_in_the_handshake_leaves_no_shared_memory():
    before = names()
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENER, KEY.hex()], stdout=subprocess.PIPE, text=True
    )
    with process, socket.create_connection(("127.0.0.1", int(process.stdout.readline()))) as sock:
        deadline = time.monotonic() + 20
        sock.sendall(NEW_SESSION)
        sealed = SealedSocket(sock, authenticate(sock, authentication(KEY, "connect"), deadline), "connect")
        sealed.deadline = deadline
        sealed.send_message(protocol.encode(negotiation.LocalSide(None, None, None, ("shared",)).hello()))
        assert isinstance(protocol.decode(sealed.receive_message()), protocol.Hello)
        proposal = protocol.decode(sealed.receive_message())
        links = [name.partition("?")[0] for name in proposal.rings]
        sizes = [os.stat(link).st_size for link in links]
        assert len(sizes) == 6 and min(sizes) > 1 << 19
        process.kill()
        process.wait(10)
        assert not any(os.path.exists(link) for link in links)
    assert not {name for name in names() - before if name in str(proposal.rings)}


@pytest.mark.parametrize("namespace", ["", "another"])
def test_processes_that_do_not_see_each_other_share_memory_by_a_name(namespace, monkeypatch):
    numbers = iter(range(10))
    monkeypatch.setattr(negotiation, "pid_namespace", lambda: namespace and f"{namespace}{next(numbers)}")
    made = []
    with listen("127.0.0.1", key=KEY, paths=("shared",)) as listener:
        port = listener.address[1]
        with in_thread(lambda: made.append(connect("127.0.0.1", port, key=KEY, paths=("shared",)))):
            connection = listener.accept(20)
    with connection, made[0]:
        made[0].send(b"hello")
        into = bytearray(5)
        connection.recv(into).wait(10)
        assert into == b"hello"
