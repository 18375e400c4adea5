"""Connections between two processes: what arrives, and the errors if it does not."""

import gc
import os
import threading
import time
from types import SimpleNamespace

import pytest

from gdrkit.transport import IntegrityFailed, PeerLost, RemoteRefused, TimedOut, TransportError, buffer
from gdrkit.transport.transfer import Transfer
from tests.transport.mix import IMPORT_MIX, mix
from tests.transport.peer import left_behind, names, peer

BOTH = pytest.mark.parametrize("path", ["tcp", "shared"])
SIZES = [0, 1, 4095, 4096, (256 << 10) + 1, 1 << 20, (9 << 20) + 13]
PATTERN = "def pattern(n): return bytes(range(251)) * (n // 251 + 1)\n"


def pattern(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@BOTH
def test_messages_of_every_size_arrive_whole_and_in_order(path):
    program = (
        PATTERN + f"for n in {SIZES}: c.send(pattern(n)[:n], integrity=True).wait(20)\nsys.stdin.read()"
    )
    with peer(program, path) as other:
        assert other.connection.path == path
        for size in SIZES:
            into = bytearray(size)
            assert other.connection.recv(into).wait(20) == size
            assert into == pattern(size)


def test_messages_have_more_sockets_than_requests():
    with peer("sys.stdin.read()", "tcp") as other:
        lanes = [(len(one._out), len(one._into)) for one in other.connection._channels]
    assert lanes[0][0] == lanes[0][1] > 1
    assert lanes[1:] == [(1, 1), (1, 1)]


def test_a_transfer_is_finished_once_its_operation_is():
    states, memory = [False, True], buffer(bytearray(b"x"))
    operation = SimpleNamespace(done=lambda: states.pop(0), expected_crc32=lambda: memory.crc32())
    transfer = Transfer(SimpleNamespace(), operation, memory, received=True)
    assert [transfer.done() for _ in range(3)] == [False, True, True]
    assert states == []


@BOTH
def test_both_directions_work_at_the_same_time(path):
    program = """
out, into = os.urandom(5 << 20), bytearray(5 << 20)
a, b = c.send(out), c.recv(into)
a.wait(20); b.wait(20)
c.send(into).wait(20)
sys.stdin.read()
"""
    with peer(program, path) as other:
        out, into, back = os.urandom(5 << 20), bytearray(5 << 20), bytearray(5 << 20)
        transfers = [other.connection.send(out), other.connection.recv(into), other.connection.recv(back)]
        for transfer in transfers:
            transfer.wait(20)
        assert back == out


@BOTH
@pytest.mark.parametrize("seed", [1, 2])
def test_random_messages_in_both_directions_arrive_whole(path, seed):
    program = f"{IMPORT_MIX}\nmix(c, None, 1, {seed})\nc.recv(bytearray(1)).wait(30)"
    with peer(program, path) as other:
        mix(other.connection, None, 0, seed)
        other.connection.send(b"x").wait(30)
        assert other.finish() == 0


@BOTH
def test_what_was_sent_before_closing_arrives(path):
    with peer("c.send(b'last words' * 1000).wait(20); c.close()", path) as other:
        assert other.finish() == 0
        into = bytearray(10_000)
        other.connection.recv(into)
        time.sleep(0.2)
        assert into == b"last words" * 1000


@BOTH
def test_regions_are_written_and_read_while_the_other_side_does_nothing(path):
    with peer("m = bytearray(b'.' * 3_000_000); c.exchange(m); sys.stdin.read()", path) as other:
        theirs = other.connection.exchange(bytearray(1))
        assert theirs.size_bytes == 3_000_000
        other.connection.write(b"hello", theirs, offset=2_999_990, integrity=True).wait(20)
        into = bytearray(3_000_000)
        other.connection.read(into, theirs).wait(20)
        assert into == b"." * 2_999_990 + b"hello" + b"." * 5


@BOTH
def test_many_concurrent_requests_in_both_directions_do_not_mix(path):
    program = """
mine = bytearray(100_000)
theirs = c.exchange(mine)
jobs = [c.write(bytes([n]) * 1000, theirs, n * 1000) for n in range(100)]
got = [bytearray(1000) for _ in range(100)]
for j in jobs: j.wait(20)
jobs = [c.read(got[n], theirs, n * 1000) for n in range(100)]
for j in jobs: j.wait(20)
assert all(got[n] == bytes([n]) * 1000 for n in range(100))
c.send(b"k").wait(20)
sys.stdin.read()
"""
    with peer(program, path) as other:
        mine = bytearray(100_000)
        theirs = other.connection.exchange(mine)
        jobs = [other.connection.write(bytes([200 - n]) * 500, theirs, n * 1000) for n in range(100)]
        for job in jobs:
            job.wait(20)
        other.connection.recv(bytearray(1)).wait(20)
        assert mine == b"".join(bytes([n]) * 1000 for n in range(100))


@BOTH
@pytest.mark.parametrize(
    ("offset", "size", "why"), [(90, 11, "do not fit"), (-1, 5, "do not fit"), (0, 101, "do not fit")]
)
def test_an_access_beyond_a_region_is_refused_and_the_connection_still_works(path, offset, size, why):
    with peer("m = bytearray(100); c.exchange(m); c.send(m).wait(20); sys.stdin.read()", path) as other:
        theirs = other.connection.exchange(bytearray(1))
        with pytest.raises(RemoteRefused, match=why):
            other.connection.write(b"x" * size, theirs, offset).wait(20)
        into = bytearray(100)
        other.connection.recv(into).wait(20)
        assert into == bytes(100)


@BOTH
def test_a_region_that_is_not_writable_can_only_be_read(path):
    with peer("c.exchange(b'read me', writable=False); sys.stdin.read()", path) as other:
        theirs = other.connection.exchange(bytearray(1))
        with pytest.raises(RemoteRefused, match="not writable"):
            other.connection.write(b"x", theirs).wait(20)
        into = bytearray(7)
        other.connection.read(into, theirs).wait(20)
        assert into == b"read me"


@BOTH
def test_a_message_of_another_size_is_an_error_on_the_side_that_expected_it(path):
    with peer("c.send(b'x' * 100); sys.stdin.read()", path) as other:
        with pytest.raises(TransportError, match="100 bytes received where 99 were expected"):
            other.connection.recv(bytearray(99)).wait(20)
        assert other.connection.broken


@BOTH
def test_the_death_of_the_other_process_is_detected_before_any_deadline(path):
    with peer("sys.stdin.read()", path) as other:
        waiting = other.connection.recv(bytearray(1 << 20))
        threading.Timer(0.3, other.kill).start()
        with pytest.raises(PeerLost):  # it would be TimedOut if the deadline had ended the wait
            waiting.wait(30)


def test_a_send_that_waits_for_the_receiver_fails_if_the_receiver_dies():
    with peer("sys.stdin.read()", "shared") as other:
        killing = threading.Timer(0.5, other.kill)
        killing.start()
        with pytest.raises(PeerLost):
            for _ in range(100):
                other.connection.send(b"x")
        killing.join()


@BOTH
def test_waiting_for_an_idle_process_times_out(path):
    with peer("sys.stdin.read()", path) as other:
        with pytest.raises(TimedOut, match=r"not done after 0\.2 s"):
            other.connection.recv(bytearray(8)).wait(0.2)
        with pytest.raises(TimedOut):
            other.connection.send(b"x")


@BOTH
def test_a_sender_waits_for_a_receiver_that_is_slow(path):
    program = "time.sleep(1)\nfor _ in range(4): c.recv(bytearray(20 << 20)).wait(20)\nsys.stdin.read()"
    with peer(program, path) as other:
        data = bytes(20 << 20)
        transfers = [other.connection.send(data) for _ in range(4)]
        time.sleep(0.3)
        assert not transfers[-1].done()
        for transfer in transfers:
            transfer.wait(20)


def test_bytes_that_changed_in_transit_are_detected():
    program = """
data = bytearray(64)
c.recv(bytearray(1)).wait(20)
c._channels[0].transmit(buffer(data), 0, 12345).done()
sys.stdin.read()
"""
    with peer(program, "shared") as other:
        waiting = other.connection.recv(bytearray(64))
        other.connection.send(b"x").wait(20)
        with pytest.raises(IntegrityFailed, match="of the sent bytes 00003039"):
            waiting.wait(20)


@BOTH
def test_a_closed_connection_leaves_nothing_behind(path):
    def held() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    with peer("c.close()", path):
        pass
    before, rings = held(), names()
    for _ in range(5):
        with peer("c.send(b'x').wait(20); c.close()", path) as other:
            other.connection.recv(bytearray(1)).wait(20)
    assert held() == before
    assert not left_behind(rings)
