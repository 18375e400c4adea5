"""One direction of the path `shared`, seen from one side, with host memory."""

from gdrkit.transport.buffers import buffer
from gdrkit.transport.ring import WRAP, Ring
from gdrkit.transport.shared import _RENEW_UNITS, SharedChannel


def test_what_was_noticed_long_ago_is_noticed_anew_before_it_would_seem_to_be_ahead():
    channel = SharedChannel(Ring.create(ring_bytes=1 << 20), Ring.create(ring_bytes=1 << 20))
    half, ring = channel._out, channel._out.ring
    try:
        for round_ in range(1, 9):
            half._position = round_ * (_RENEW_UNITS - 1)
            ring.produced[0] = ring.consumed[0] = half._position % WRAP
            channel.transmit(buffer(b"x"), None, None)
            noticed = ring.counters()[2]
            assert (half._position - noticed) % WRAP < WRAP // 2
    finally:
        channel.close()
