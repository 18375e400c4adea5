"""One direction of the path `shared`, on one side, with host memory."""

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
