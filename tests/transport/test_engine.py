"""What the engines queue and wait for, with the slowest possible other side: on `driver_model`, without a
GPU.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdrkit.transport.buffers import Buffer, buffer
from gdrkit.transport.engine import Engine, RingMessage
from gdrkit.transport.native.cuda import cuda
from gdrkit.transport.ring import UNIT_BYTES, WRAP, Ring, units
from gdrkit.transport.ring_consumer import RingConsumer
from gdrkit.transport.ring_producer import RingProducer
from tests.transport import driver_model

MIB = 1 << 20
slowly = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


class Recorder(Engine):
    """Records work instead of queueing it: ("wait", value) and ("copy", bytes)."""

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__(ring, device)
        self.queued: list[tuple[str, int]] = []
        self.copied_units = 0

    def wait(self, stream: int, counter: int, value: int) -> None:
        self.queued.append(("wait", value))

    def copy(self, destination: int, source: int, size_bytes: int, stream: int) -> None:
        self.queued.append(("copy", size_bytes))
        self.copied_units += units(size_bytes)

    def count(self, message: RingMessage, stream: int, counter: int, reaches: int) -> None:
        return


class RecordingProducer(Recorder, RingProducer):
    pass


class RecordingConsumer(Recorder, RingConsumer):
    pass


@pytest.fixture(scope="module")
def ring() -> Iterator[Ring]:
    driver_model.install(0)
    cuda().use(0)
    ring = Ring.create(ring_bytes=4 * MIB)
    ring.pin(0)
    yield ring
    ring.close()
    driver_model.uninstall()


@given(st.integers(0, 40 * MIB), st.integers(0, 1 << 40), st.data())
@slowly
def test_a_sender_overwrites_no_unread_unit_and_waits_for_no_more_than_the_receiver_can_read(
    ring, size, begin, data
):
    taken = begin - data.draw(st.integers(0, ring.units))
    ring.consumed[0] = taken % WRAP
    engine = RecordingProducer(ring, 0)
    step = ring.step(size, busy=data.draw(st.booleans()))
    engine.move(Buffer(1 << 40, size, 0, None), begin, step, 0, idle=False)
    written, left = begin, size
    for what, value in engine.queued:
        if what == "wait":
            # A receiver that waits for a whole chunk of its own may leave this much unread.
            assert value <= written - (ring.largest_step // UNIT_BYTES - 1)
            taken = max(taken, value)
        else:
            written, left = written + units(value), left - value
            assert taken >= written - ring.units
    assert left == 0
    engine.abandon()
    engine.close()


@given(st.integers(0, 40 * MIB), st.integers(0, 1 << 40), st.data())
@slowly
def test_a_receiver_reads_no_unit_before_it_was_written(ring, size, begin, data):
    written = begin + data.draw(st.integers(0, min(ring.units, units(size))))
    ring.produced[0] = written % WRAP
    engine = RecordingConsumer(ring, 0)
    engine.move(
        Buffer(1 << 40, size, 0, None),
        begin,
        ring.step(size, busy=False),
        0,
        idle=False,
    )
    read, left = begin, size
    for what, value in engine.queued:
        if what == "wait":
            written = max(written, value)
        else:
            read, left = read + units(value), left - value
            assert read <= written
    assert left == 0
    engine.abandon()
    engine.close()


@given(st.integers(3 * MIB, 40 * MIB), st.integers(0, 1 << 40), st.data())
@slowly
def test_a_waiting_receiver_copies_exactly_the_available_units(ring, size, begin, data):
    ring.produced[0] = ring.consumed[0] = begin % WRAP
    engine = RecordingConsumer(ring, 0)
    engine._progress_loop = lambda: None  # only the waiting thread drives progress
    engine.move(
        Buffer(1 << 40, size, 0, None),
        begin,
        ring.step(size, busy=False),
        None,
        idle=True,
    )
    end, written = begin + units(size), begin
    while written < end:
        written = min(end, written + data.draw(st.integers(1, ring.units)))
        ring.produced[0] = written % WRAP
        while (read := begin + engine.copied_units) < written:
            engine.progress()
            assert begin + engine.copied_units <= written
            ring.consumed[0] = read % WRAP
    assert {what for what, _ in engine.queued} == {"copy"}
    assert sum(value for _, value in engine.queued) == size
    engine.abandon()
    engine.close()


@given(st.integers(3 * MIB, 40 * MIB), st.integers(0, 1 << 40), st.data())
@slowly
def test_a_waiting_sender_writes_only_where_there_is_space(ring, size, begin, data):
    taken = begin - data.draw(st.integers(0, ring.units))
    ring.produced[0], ring.consumed[0] = begin % WRAP, taken % WRAP
    engine = RecordingProducer(ring, 0)
    engine._progress_loop = lambda: None  # only the waiting thread drives progress
    step = ring.step(size, busy=data.draw(st.booleans()))
    engine.move(Buffer(1 << 40, size, 0, None), begin, step, None, idle=False)

    def written() -> int:
        return begin + engine.copied_units

    while True:
        assert written() <= taken + ring.units
        if written() == begin + units(size):
            break
        assert taken + ring.units - written() < ring.largest_step // UNIT_BYTES
        taken = data.draw(st.integers(taken + 1, written()))
        ring.consumed[0] = taken % WRAP
        engine.progress()
    assert {what for what, _ in engine.queued} == {"copy"}
    assert sum(value for _, value in engine.queued) == size
    engine.abandon()
    engine.close()


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true within seconds."""
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    return condition()


def test_a_waiting_sender_acknowledges_copies_at_once_and_the_gpu_counts_in_order(ring):
    begin, memory = 5, os.urandom(3 * MIB)
    end = begin + units(len(memory))
    ring.produced[0] = ring.consumed[0] = begin
    ring.acknowledge(begin)
    engine, gates = RingProducer(ring, 0), (ctypes.c_uint32 * 2)()  # both streams wait for their gate
    for index, stream in enumerate((engine._own, engine._counting)):
        engine.wait(stream, ctypes.addressof(gates) + 4 * index, 1)

    def filled() -> int:
        engine.poll()
        return ring.filled

    engine.move(buffer(memory)._replace(device=0), begin, MIB, None, idle=True)
    assert filled() == begin  # nothing is copied
    gates[0] = 1
    assert soon(lambda: filled() == end)
    assert ctypes.string_at(ring.locate(begin)[0], len(memory)) == memory
    assert ring.produced[0] == begin  # the end is not counted before the earlier chunks
    gates[1] = 1
    assert soon(lambda: ring.produced[0] == end)
    engine.abandon()
    engine.close()


def test_while_a_thread_waits_the_background_thread_does_not_drive_progress(ring):
    ring.produced[0], ring.consumed[0] = 0, WRAP - ring.units  # no space
    engine = RecordingProducer(ring, 0)
    with engine.progressing():
        engine.move(Buffer(1 << 40, MIB, 0, None), 0, MIB, None, idle=False)
        ring.consumed[0] = 0
        time.sleep(0.1)
        assert engine.queued == []
    assert soon(lambda: engine.queued == [("copy", MIB)])
    engine.abandon()
    engine.close()


def test_abandon_waits_until_no_other_thread_drives_progress(ring):
    engine = RecordingProducer(ring, 0)
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        with engine.progressing():
            entered.set()
            leave.wait()

    waiter, closer = threading.Thread(target=wait), threading.Thread(target=engine.abandon)
    waiter.start()
    entered.wait()
    closer.start()
    closer.join(0.1)
    assert closer.is_alive()
    leave.set()
    closer.join(20)
    assert not closer.is_alive()
    waiter.join()
    engine.close()
