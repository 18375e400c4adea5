"""The control messages of the two sides: these are accepted, and nothing else."""

import hashlib
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.transport import TransportError, negotiation, protocol
from gdrkit.transport.rdma import _OFFER
from gdrkit.transport.ring import _HEADER as RING_HEADER
from gdrkit.transport.ring import _MAGIC, SLOTS, UNIT_BYTES, Slot, _Header
from gdrkit.transport.sealed_socket import _FRAME, _LENGTH, _NUMBERED
from gdrkit.transport.socket_channel import _CHECKED, _HEADER, _SMALLEST_PART

MESSAGES = [
    protocol.Hello("boot", "pid:[1]", "0000:1b:00.0", "mlx5_0", ("verbs", "tcp")),
    protocol.Proposal("shared", ("/dev/shm/gdrkit-a",)),
    protocol.Proposal("verbs", (), (protocol.RdmaEnd(17, "00" * 16, 0, 3),)),
    protocol.ProposalAnswer("no"),
    protocol.Region(0, 4096, True, False, 1 << 63, 77),
    protocol.WindowOffer(1 << 30, "/dev/shm/gdrkit-a"),
    protocol.MemoryRequest(1, True, 0, 0, 1 << 40, False),
    protocol.RequestGranted(1),
    protocol.RequestRefused(1, "why"),
    protocol.RequestDone(1, ""),
    protocol.Bye(),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_decoded_as_it_was_encoded(message):
    found = protocol.decode(protocol.encode(message))
    assert type(found) is type(message)
    assert found == message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b'["Nothing"]',
        b'["Bye", 1]',
        b'["RequestGranted"]',
        b'["RequestGranted", true]',
        b'["RequestGranted", "1"]',
        b'["Hello", "b", "", "", "", "tcp", false]',
        b'["Hello", "b", "", "", "", [1], false]',
        b'["ProposalAnswer", "", [[1, "gid", 0]]]',
        b'["ProposalAnswer", "", ["abcd"]]',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_anything_else_is_an_error(body):
    with pytest.raises(TransportError, match="invalid control message"):
        protocol.decode(body)


@given(
    st.binary()
    | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_any_bytes_give_a_message_or_an_error(body):
    try:
        assert type(protocol.decode(body)).__name__ in {type(message).__name__ for message in MESSAGES}
    except TransportError:
        return


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'["Bye", 1]', "Bye must have 0 fields"),
        (b'["RequestGranted"]', "RequestGranted must have 1 fields"),
        (b'["RequestGranted", true]', "not of type int: True"),
        (b'["Hello", "b", "", "", "", "tcp", false]', "not a list: 'tcp'"),
        (b'["ProposalAnswer", "", [[1, "gid", 0]]]', "RdmaEnd must have 4 fields"),
        (b'["ProposalAnswer", "", ["abcd"]]', "RdmaEnd must have 4 fields"),
        (b'["Region", 0, 1, 1, true, 0, 0]', "not of type bool: 1"),
        (b'["Proposal", "", {"' + b"a" * 99 + b'": 1}, []]', "not a list: {'" + "a" * 38),
        (b'["Nothing"]', "'Nothing'"),
    ],
)
def test_an_error_says_what_is_wrong(body, why):
    with pytest.raises(TransportError) as caught:
        protocol.decode(body)
    assert str(caught.value) == f"invalid control message: {why}"


def test_what_is_not_said_is_nothing():
    assert protocol.Hello("boot", "", "", "", ()).authenticate_data is False
    assert protocol.Region(0, 1, True, True)[4:] == (0, 0)
    assert protocol.encode(protocol.Proposal("tcp")) == b'["Proposal", "tcp", [], []]'
    assert protocol.encode(protocol.ProposalAnswer()) == b'["ProposalAnswer", "", []]'
    assert protocol.encode(protocol.WindowOffer(1)) == b'["WindowOffer", 1, "", ""]'


def layout(kind):
    """Each field of a structure: its name, offset and size."""
    fields = ((name, getattr(kind, name)) for name, *_ in kind._fields_)
    return [(name, field.offset, field.size) for name, field in fields]


def test_what_two_processes_exchange_has_a_version():
    """Whoever changes this raises VERSION, so that two versions refuse each other instead of misreading."""
    wire = [
        [(kind.__name__, kind.__annotations__) for kind in get_args(protocol.ProtocolMessage)],
        (protocol.RdmaEnd.__annotations__, negotiation.DIRECTIONS, negotiation._MORE_SOCKETS),
        [struct.format for struct in (_LENGTH, _NUMBERED, _HEADER, _OFFER)],
        (_FRAME, _CHECKED, _SMALLEST_PART),
        (layout(Slot), layout(_Header), RING_HEADER, SLOTS, UNIT_BYTES),
    ]
    digest = hashlib.sha256(repr(wire).encode()).hexdigest()[:12]
    assert (protocol.VERSION, digest) == (9, "cb27440dae45")


def test_shared_memory_has_the_version_of_the_control_messages():
    assert _MAGIC.to_bytes(8, "little") == b"gdrring" + bytes([protocol.VERSION])
