"""Which lines of a log are about a leg."""

from __future__ import annotations

import pytest

from gdrkit.jobs.job import Leg, LegDirection
from gdrkit.jobs.reasons import _is_at
from gdrkit.programs.nccl.log_records import Carrier, PairLine


@pytest.mark.parametrize(
    ("hca", "index", "is_at"),
    [
        ("3", 3, True),
        ("3", 2, False),
        ("f", 15, True),
        ("0-3", 3, True),
        ("1000000000000003", 3, True),  # of the second host
        ("1000000000000002", 3, False),
        ("100000000000003", 3, True),  # the lower 56 bits number a device
        ("80000000000003", 3, False),
        ("1ffffffffffffff", 0xFFFFFFFFFFFFFF, True),
    ],
)
def test_a_pair_is_that_of_a_leg_by_the_number_of_its_nic_on_its_host(hca: str, index: int, is_at: bool):
    leg = Leg(direction=LegDirection.SEND, carried=Carrier.BOUNCED, channels=(0,), line=1, index=index)
    assert _is_at(PairLine(gpu="1b000", hca=hca, allowed=False), leg) is is_at


@pytest.mark.parametrize(("read", "sends"), [(None, True), (True, True), (False, False)])
def test_a_line_about_reading_memory_is_about_sending(read: bool | None, sends: bool):
    pair = PairLine(gpu="1b000", hca="0", allowed=False, read=read)
    for direction, counts in ((LegDirection.SEND, sends), (LegDirection.RECEIVE, read is not True)):
        leg = Leg(direction=direction, carried=Carrier.BOUNCED, channels=(0,), line=1, index=0)
        assert _is_at(pair, leg) is counts
