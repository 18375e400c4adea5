"""The lines of one machine that report a failure, in order."""

from __future__ import annotations

import pytest

from gdrkit.explain.log_events import MOST_LINES, WENT_ON, events
from gdrkit.explain.transcript import read

WITHOUT = (
    "n1:1:2 [0] NCCL INFO GIN/GDAKI: mlx5dv_get_data_direct_sysfs_path unavailable for device mlx5_0, "
    "assuming no\n"
)
FAILS = "n1:1:2 [0] NCCL WARN Call to ibv_frobnicate failed\n"
DIRECT = "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
OTHER = "n1:1:2 [0] NCCL INFO Using network IB\n"


def notes(text: str) -> list[str]:
    return [event.note for event in events(read(text)) if event.goes_on]


@pytest.mark.parametrize(
    ("text", "went_on"),
    [
        (WITHOUT, False),
        (FAILS + WITHOUT, False),
        (DIRECT + WITHOUT, False),
        (DIRECT + OTHER + WITHOUT + OTHER, False),
        (WITHOUT + FAILS, True),
        (WITHOUT + DIRECT, True),
        (WITHOUT + OTHER + DIRECT + OTHER, True),
    ],
)
def test_a_program_went_on_without_what_it_lacks_if_a_later_line_shows_it(text: str, went_on: bool):
    assert notes(text) == [WENT_ON if went_on else ""]


@pytest.mark.parametrize(
    ("at", "went_on"), [(MOST_LINES - 1, True), (MOST_LINES, True), (MOST_LINES + 1, False)]
)
def test_it_is_searched_for_in_the_next_lines(at: int, went_on: bool):
    lacks, other, direct = read(WITHOUT + OTHER + DIRECT)
    (event,) = events((lacks, *[other] * (at - 1), direct))
    assert event.note == (WENT_ON if went_on else "")
