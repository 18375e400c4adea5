"""Messages that move step by step, in the thread that waits for them or in the background."""

import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gdrkit.transport.errors import PeerLost, TransportError
from gdrkit.transport.steps import StepQueue, at_once, run, shortly, socket_wait, threads_done, until

SECONDS = 30.0


@pytest.fixture
def queue():
    made = StepQueue()
    yield made
    made.abandon()


def wait(operation):
    end = time.monotonic() + SECONDS
    with operation.progressing():
        while not operation.done():
            assert time.monotonic() < end
            operation.back_off(0.0)


def noting(notes, name, open_=lambda: True):
    """Steps that note when they begin and when they are let through."""
    notes.append(f"{name} begins")
    yield from until(open_)
    notes.append(f"{name} ends")
    return 7


def test_a_message_that_waits_for_nothing_is_done_at_once_in_the_thread_that_sends_it(queue):
    notes = []
    operation = queue.put(noting(notes, "a"))
    assert notes == ["a begins", "a ends"] and not queue.pending
    assert operation.done() and operation.expected_crc32() == 7


def test_messages_move_one_after_another(queue):
    notes, gate = [], threading.Event()
    first, second = queue.put(noting(notes, "a", gate.is_set)), queue.put(noting(notes, "b"))
    assert not first.done() and not second.done() and notes == ["a begins"]
    gate.set()
    wait(second)
    assert notes == ["a begins", "a ends", "b begins", "b ends"] and first.finished


def test_the_thread_that_waits_takes_the_steps(queue):
    threads, gate = [], threading.Event()

    def steps():
        while not gate.is_set():
            threads.append(threading.get_ident())
            yield at_once

    operation = queue.put(steps())
    with operation.progressing():
        before = len(threads)
        while len(threads) < before + 100:
            operation.done()
        gate.set()
    wait(operation)
    # The background may end the step that it has begun.
    assert sum(thread != threading.get_ident() for thread in threads[before:]) <= 1


def test_the_background_takes_the_steps_that_no_thread_waits_for(queue):
    gate, ended = threading.Event(), threading.Event()

    def steps():
        yield from until(gate.is_set)
        ended.set()

    queue.put(steps())
    gate.set()
    assert ended.wait(SECONDS)


def test_it_does_so_although_a_thread_has_just_waited(queue):
    """The next message is left to that thread for a while, and not for ever."""
    gate, ended = threading.Event(), threading.Event()
    wait(queue.put(noting([], "a", threading.Event().is_set and (lambda: True))))
    with queue.progressing():
        pass

    def steps():
        yield from until(gate.is_set)
        ended.set()

    queue.put(steps())
    gate.set()
    assert ended.wait(SECONDS)


def test_a_thread_that_waits_in_one_direction_drives_the_other_one_too(queue):
    other, gate, threads = StepQueue(), threading.Event(), []
    queue.partner, other.partner = other, queue

    def steps():
        yield shortly
        threads.append(threading.get_ident())
        gate.set()

    awaited = queue.put(noting([], "a", gate.is_set))
    with awaited.progressing():
        other.put(steps())
        end = time.monotonic() + SECONDS
        while not awaited.done():
            assert time.monotonic() < end
    other.abandon()
    assert threads == [threading.get_ident()]


def test_an_error_ends_its_message_alone(queue):
    def failing():
        yield at_once
        raise PeerLost("gone")

    first, second = queue.put(failing()), queue.put(noting([], "b"))
    wait(second)
    with pytest.raises(PeerLost, match="gone"):
        first.done()


def test_closing_ends_the_messages_that_are_left():
    queue, gone = StepQueue(), threading.Event()

    def steps():
        while not gone.is_set():
            yield shortly
        raise TransportError("closed")

    operations = [queue.put(steps()) for _ in range(3)]
    gone.set()
    queue.abandon()
    assert not queue.pending
    for operation in operations:
        with pytest.raises(TransportError, match="closed"):
            operation.done()


def test_the_error_of_a_thread_is_that_of_the_message():
    def fail():
        raise PeerLost("in a thread")

    with ThreadPoolExecutor(2) as pool, pytest.raises(PeerLost, match="in a thread"):
        run(threads_done([pool.submit(time.sleep, 0.01), pool.submit(fail)]))


def test_a_wait_for_a_socket_ends_when_it_can_be_read():
    ends = socket.socketpair()
    with ends[0], ends[1]:
        readable = socket_wait(ends[0].fileno(), select.POLLIN)
        begun = time.monotonic()
        readable(0.0)
        readable(1e-3)
        assert time.monotonic() - begun < SECONDS  # bytes or not, it ends
        threading.Timer(0.05, ends[1].sendall, (b"x",)).start()
        while time.monotonic() - begun < SECONDS:
            readable(1e-3)
            try:
                assert ends[0].recv(1, socket.MSG_DONTWAIT) == b"x"
                break
            except BlockingIOError:
                continue
        else:
            raise AssertionError("the byte was not seen")
