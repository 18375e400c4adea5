"""What GPUs are told to wait for, against the slowest other side that may be: on `driver_model`, no GPU."""

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


class Noted(Engine):
    """Writes down what is queued instead of queueing it: ("wait", value) and ("copy", bytes)."""

    def __init__(self, ring: Ring, device: int) -> None:
        super().__init__(ring, device)
        self.queued: list[tuple[str, int]] = []
        self.copied_units = 0

    def wait(self, stream: int, counter: int, value: int) -> None:
        self.queued.append(("wait", value))

    def copy(self, to: int, of: int, size_bytes: int, stream: int) -> None:
        self.queued.append(("copy", size_bytes))
        self.copied_units += units(size_bytes)

    def count(self, message: RingMessage, stream: int, counter: int, reaches: int) -> None:
        return


class NotedFilling(Noted, RingProducer):
    pass


class NotedEmptying(Noted, RingConsumer):
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
def test_a_sender_writes_no_unit_before_it_was_taken_and_asks_for_no_more_than_can_be(
    ring, size, begin, data
):
    taken = begin - data.draw(st.integers(0, ring.units))
    ring.consumed[0] = taken % WRAP
    engine = NotedFilling(ring, 0)
    step = ring.step(size, busy=data.draw(st.booleans()))
    engine.move(Buffer(1 << 40, size, 0, None), begin, step, 0, idle=False)
    written, left = begin, size
    for what, value in engine.queued:
        if what == "wait":
            # A receiver that waits for a whole chunk of its own may leave so much of what is there.
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
    engine = NotedEmptying(ring, 0)
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
def test_who_waits_has_copied_what_is_there_and_nothing_else(ring, size, begin, data):
    ring.produced[0] = ring.consumed[0] = begin % WRAP
    engine = NotedEmptying(ring, 0)
    engine._keep = lambda: None  # nobody but the one who waits
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
def test_who_waits_has_written_where_there_is_room_and_nowhere_else(ring, size, begin, data):
    taken = begin - data.draw(st.integers(0, ring.units))
    ring.produced[0], ring.consumed[0] = begin % WRAP, taken % WRAP
    engine = NotedFilling(ring, 0)
    engine._keep = lambda: None  # nobody but the one who waits
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


def test_a_sender_who_waits_says_what_is_copied_when_it_is_and_the_gpu_counts_in_turn(ring):
    begin, memory = 5, os.urandom(3 * MIB)
    end = begin + units(len(memory))
    ring.produced[0] = ring.consumed[0] = begin
    ring.acknowledge(begin)
    engine, gates = RingProducer(ring, 0), (ctypes.c_uint32 * 2)()  # streams are held up, as a GPU's are
    for place, stream in enumerate((engine._own, engine._counting)):
        engine.wait(stream, ctypes.addressof(gates) + 4 * place, 1)

    def filled() -> int:
        engine.poll()
        return ring.filled

    engine.move(buffer(memory)._replace(device=0), begin, MIB, None, idle=True)
    assert filled() == begin  # nothing is copied
    gates[0] = 1
    assert soon(lambda: filled() == end)
    assert ctypes.string_at(ring.place(begin)[0], len(memory)) == memory
    assert ring.produced[0] == begin  # the end is not counted before what comes before it
    gates[1] = 1
    assert soon(lambda: ring.produced[0] == end)
    engine.abandon()
    engine.close()


def test_while_somebody_waits_the_engine_s_own_thread_leaves_the_message_to_them(ring):
    ring.produced[0], ring.consumed[0] = 0, WRAP - ring.units  # no room
    engine = NotedFilling(ring, 0)
    with engine.progressing():
        engine.move(Buffer(1 << 40, MIB, 0, None), 0, MIB, None, idle=False)
        ring.consumed[0] = 0
        time.sleep(0.1)
        assert engine.queued == []
    assert soon(lambda: engine.queued == [("copy", MIB)])
    engine.abandon()
    engine.close()


def test_an_engine_is_not_given_up_while_another_thread_waits_in_it(ring):
    engine = NotedFilling(ring, 0)
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
