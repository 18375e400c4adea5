"""Answers of any length, nesting and number end in an error or an answer, never in a fault or a wait."""

from __future__ import annotations

import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.running import netlink
from tests.agent.running.kernel import Kernel, attribute, message

NAMES = {1: "index", 2: "device_name", 28: "pid"}


def soon() -> float:
    return time.monotonic() + 20


@pytest.fixture
def kernel():
    made: list[Kernel] = []

    def start(answers) -> netlink.Link:
        made.append(Kernel(answers))
        return netlink.Link(made[-1].link, soon())

    yield start
    for one in made:
        one.close()


def test_every_answer_of_a_dump_is_given(kernel):
    link = kernel(lambda command, body: [attribute(1, struct.pack("=I", n)) for n in range(3)])

    assert [netlink.row(data, NAMES) for data in link.ask(1, b"", dump=True)] == [
        {"index": 0}, {"index": 1}, {"index": 2}
    ]  # fmt: skip


def test_an_error_of_the_kernel_is_its_errno(kernel):
    with pytest.raises(OSError) as raised:
        list(kernel(lambda command, body: 95).ask(1, b"", dump=True))
    assert raised.value.errno == 95


def test_a_second_question_ignores_answers_to_the_first(kernel):
    """An answer that comes late has an older sequence number."""
    link = kernel(lambda command, body: [attribute(1, body[4:8])])
    first = link.ask(1, netlink.attribute(1, 7), dump=True)
    assert netlink.row(next(first), NAMES) == {"index": 7}

    assert [netlink.row(one, NAMES) for one in link.ask(1, netlink.attribute(1, 8), dump=True)] == [
        {"index": 8}
    ]


def test_a_dump_without_end_is_cut_off(kernel, monkeypatch):
    monkeypatch.setattr(netlink, "LIMIT_BYTES", 5000)
    link = kernel(lambda command, body: [attribute(1, bytes(900))] * 100)

    with pytest.raises(ValueError, match="without end"):
        list(link.ask(1, b"", dump=True))


def test_a_kernel_that_is_silent_is_not_waited_for():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, pytest.raises(TimeoutError):
        list(netlink.Link(ours, time.monotonic() + 0.05).ask(1, b"", dump=True))


def test_a_kernel_that_goes_on_is_not_waited_for_after_the_deadline():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.send(message(5, 1, attribute(1, bytes(4))))
        answers = netlink.Link(ours, time.monotonic() + 0.05).ask(1, b"", dump=True)
        next(answers)
        with pytest.raises(TimeoutError):
            next(answers)


@pytest.mark.parametrize("length", [0, 15, 17, 1 << 31])
def test_a_message_with_a_wrong_length_is_refused(length):
    with pytest.raises(ValueError, match="a message"):
        list(netlink.messages(struct.pack("=IHHII", length, 5, 0, 1, 0)))


@pytest.mark.parametrize("length", [0, 3, 9, 0xFFFF])
def test_an_attribute_with_a_wrong_length_is_refused(length):
    with pytest.raises(ValueError, match="an attribute"):
        list(netlink.attributes(struct.pack("=HHI", length, 1, 0)))


def test_flags_of_an_attribute_are_no_part_of_its_number():
    """NLA_F_NESTED and NLA_F_NET_BYTEORDER are its two highest bits."""
    assert [number for number, _ in netlink.attributes(attribute(0xC000 | 40, b""))] == [40]


def test_a_row_has_what_is_named_and_nothing_else():
    data = attribute(1, struct.pack("=I", 3)) + attribute(2, b"rxe0\0") + attribute(42, bytes(4))

    assert netlink.row(data, NAMES) == {"index": 3, "device_name": "rxe0"}


def test_a_region_of_all_memory_has_the_largest_number_that_json_has():
    assert netlink.row(attribute(1, b"\xff" * 8), NAMES) == {"index": (1 << 63) - 1}


def test_a_number_that_is_too_long_is_left_out():
    assert netlink.row(attribute(1, bytes(9)) + attribute(28, b"\1"), NAMES) == {"pid": 1}


@given(st.binary(max_size=300))
def test_any_bytes_are_messages_and_attributes_or_refused(data):
    for parse in (netlink.messages, netlink.attributes, lambda found: [netlink.row(found, NAMES)]):
        try:
            list(parse(data))
        except ValueError:
            continue


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=40)), max_size=20))
def test_what_was_written_is_read(rows):
    assert list(netlink.attributes(b"".join(attribute(*row) for row in rows))) == rows
