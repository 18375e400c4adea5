"""One direction of the path `shared`, on one side, with host memory."""

import os

import pytest

from gdrkit.transport import PeerLost
from gdrkit.transport.buffers import buffer
from gdrkit.transport.ring import WRAP, Ring
from gdrkit.transport.shared import _RENEW_UNITS, SharedDirection


def test_an_old_acknowledgement_is_renewed_before_it_would_appear_to_be_ahead():
    ring = Ring.create(ring_bytes=1 << 20)
    out = SharedDirection(ring, True)
    try:
        for round_ in range(1, 9):
            out._position = round_ * (_RENEW_UNITS - 1)
            ring.produced[0] = ring.consumed[0] = out._position % WRAP
            out.begin(buffer(b"x"), None, None)
            acknowledged = ring.counters()[2]
            assert (out._position - acknowledged) % WRAP < WRAP // 2
    finally:
        out.close()


def test_what_a_side_that_gives_up_has_not_sent_does_not_arrive():
    """It must not let the other side's wait end as if the rest of the message were there."""
    content, target = os.urandom(4 << 20), bytearray(4 << 20)
    ring = Ring.create(ring_bytes=1 << 20)
    out, into = SharedDirection(ring, True), SharedDirection(Ring.open(ring.path), False)
    try:
        out.begin(buffer(content), None, None)  # as much as the ring holds
        out.release()
        arriving = into.begin(buffer(target), None, None)
        with pytest.raises(PeerLost):
            for _ in range(1000):  # far more steps than it has
                arriving.done()
    finally:
        out.close()
        into.close()


def test_a_message_that_arrived_is_copied_out_although_its_sender_has_closed():
    content, target = os.urandom(300_000), bytearray(300_000)
    ring = Ring.create(ring_bytes=1 << 20)
    out, into = SharedDirection(ring, True), SharedDirection(Ring.open(ring.path), False)
    try:
        assert out.begin(buffer(content), None, None).done()
        out.close()
        assert into.begin(buffer(target), None, None).done()
        assert target == content
    finally:
        into.close()
