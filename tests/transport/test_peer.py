"""The path `peer` in one process, on `driver_model`: what needs a thread, and what a hostile peer posts."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator

import pytest

from gdrkit.agent.native.cuda_abi import STREAM_NON_BLOCKING
from gdrkit.transport import PeerLost, TransportError, buffers
from gdrkit.transport.buffers import Buffer
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.negotiation import LocalChannel
from gdrkit.transport.operation import pause
from gdrkit.transport.peer_receiver import PeerReceiver
from gdrkit.transport.peer_sender import PeerSender
from gdrkit.transport.progress import SLOW_SECONDS
from gdrkit.transport.ring import Ring, Slot
from tests.transport import driver_model

SIZE = 100_000


@pytest.fixture
def ends() -> Iterator[tuple[LocalChannel, LocalChannel]]:
    """The two ends of a channel."""
    driver_model.install(0)
    cuda().use(0)
    made = [Ring.create(ring_bytes=1 << 20) for _ in range(2)]
    opened = [Ring.open(ring.path) for ring in made]
    one, other = (
        LocalChannel(PeerSender(out), PeerReceiver(into)) for out, into in (made, reversed(opened))
    )
    yield one, other
    one.abandon()
    other.abandon()
    other.close()
    one.close()
    driver_model.uninstall()


def memory(content: bytes) -> Buffer:
    address = cuda().number("cuMemAlloc_v2", len(content))
    ctypes.memmove(address, content, len(content))
    return Buffer(address, len(content), 0, None)


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true within seconds."""
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    return condition()


def test_a_busy_stream_posts_its_message_and_goes_on_without_a_thread_of_the_receiver(ends):
    sender, receiver = ends
    receiver.into._progress_loop = lambda: None
    content = os.urandom(SIZE)
    into, gate = memory(bytes(SIZE)), cuda().number("cuMemHostAlloc", 4096, 3)
    stream = cuda().number("cuStreamCreate", STREAM_NON_BLOCKING)
    cuda().call("cuStreamWaitValue32_v2", stream, gate, 1, 0)
    receiver.receive(into, stream)
    sending = sender.transmit(memory(content), None, None)
    time.sleep(0.05)
    assert not sending.done()
    assert ctypes.string_at(into.address, SIZE) == bytes(SIZE)
    ctypes.c_uint32.from_address(gate).value = 1
    assert soon(sending.done)
    cuda().call("cuStreamSynchronize", stream)
    assert ctypes.string_at(into.address, SIZE) == content


@pytest.mark.parametrize("content", [b"x", bytes(1), b"\xff"])
def test_a_single_byte_arrives_on_a_stream(ends, content):
    """It is copied from the slot itself, which has room for one."""
    sender, receiver = ends
    into = memory(b"-")
    stream = cuda().number("cuStreamCreate", STREAM_NON_BLOCKING)
    arriving = receiver.receive(into, stream)
    assert arriving.landing.address == ctypes.addressof(arriving.slot) + Slot.byte.offset
    assert soon(sender.transmit(memory(content), None, None).done)
    cuda().call("cuStreamSynchronize", stream)
    assert ctypes.string_at(into.address, 1) == content


def test_the_background_thread_looks_no_more_often_than_chunks_are_copied(ends):
    _, receiver = ends
    assert receiver.into._interval(0.0) == SLOW_SECONDS
    assert receiver.into._interval(1.0) == pause(1.0) > SLOW_SECONDS


@pytest.mark.parametrize("size", [1, 99, 100, 101, 250])
def test_memory_of_a_gpu_is_checked_in_chunks(ends, size, monkeypatch):
    monkeypatch.setattr(buffers, "_CHECK_BYTES", 100)
    content = os.urandom(size)
    assert memory(content).crc32() == zlib.crc32(content)


def test_a_connection_can_break_while_a_thread_waits_for_a_message(ends):
    _, receiver = ends
    arriving = receiver.receive(memory(bytes(SIZE)), None)
    waits, leave = threading.Event(), threading.Event()

    def wait() -> None:
        with arriving.progressing():
            waits.set()
            leave.wait()

    waiter, breaker = threading.Thread(target=wait), threading.Thread(target=receiver.abandon)
    waiter.start()
    waits.wait()
    breaker.start()
    breaker.join(20)
    assert not breaker.is_alive()
    with pytest.raises(PeerLost):
        arriving.done()
    leave.set()
    waiter.join()


@pytest.mark.parametrize("offset", [1, 1 << 40, (1 << 64) - 4096])
def test_nothing_is_copied_beyond_the_memory_that_was_posted(ends, offset):
    sender, receiver = ends
    into, content = memory(bytes(SIZE)), os.urandom(SIZE)
    arriving = receiver.receive(into, None)
    slot = receiver.into.ring.slots[0]
    slot.offset = offset
    sending = sender.transmit(memory(content), None, None)
    assert soon(lambda: arriving.done() and sending.done())
    assert (slot.announced, slot.copied) == (1, 0)  # through the ring instead
    assert ctypes.string_at(into.address, SIZE) == content


def test_a_message_of_another_size_is_refused(ends):
    sender, receiver = ends
    arriving = receiver.receive(memory(bytes(SIZE)), None)
    sender.transmit(memory(bytes(SIZE - 1)), None, None)
    with pytest.raises(TransportError, match=f"message of {SIZE - 1} bytes received where {SIZE} were"):
        soon(arriving.done)


def test_the_words_of_a_broken_connection_are_no_arrival(ends):
    sender, receiver = ends
    arriving = receiver.receive(memory(bytes(SIZE)), None)
    sender.abandon()
    time.sleep(0.05)
    assert not arriving.done()


def test_what_has_arrived_stays_so_when_the_sender_closes(ends):
    sender, receiver = ends
    receiver.into._progress_loop = lambda: None
    arriving = receiver.receive(memory(bytes(SIZE)), None)
    sending = sender.transmit(memory(bytes(SIZE)), None, None)
    assert soon(sending.done)
    sender.abandon()
    assert arriving.done()
