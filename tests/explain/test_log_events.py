"""The lines of one machine that report a failure, in order."""

from __future__ import annotations

import pytest

from gdrkit.explain.lines.transcript import read
from gdrkit.explain.log_events import MOST_LINES, WENT_ON, events
from tests.explain.explaining import explained, open_lines

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


REFUSED = "{}\n Completion with error at client\n Failed status {}: wr_id 0 syndrom 0x88\nscnt=128, ccnt=0\n"
OF_A_HOST = ("$ ib_send_bw -d mlx5_0 10.0.0.2", "$ ib_write_bw --use_hugepages -s 65537 10.0.0.2")
OF_GPUS = ("$ ib_write_bw --use_cuda=0 10.0.0.2", "$ ib_write_bw --use_rocm=0 10.0.0.2", "")


@pytest.mark.parametrize("status", [4, 10, 11])
def test_a_run_with_memory_of_a_host_has_no_cause_that_is_one_of_a_gpu_s(status: int):
    """linux-rdma/perftest issue 394: what protects a host's memory, no bridge between GPU and NIC does."""
    for command in OF_A_HOST:
        found = explained(REFUSED.format(command, status)).answer
        assert (found.kind, found.cause, found.others) == ("nothing", None, ())
    for command in OF_GPUS:
        assert explained(REFUSED.format(command, status)).answer.cause == "acs-redirect"


def test_a_limit_of_locked_memory_is_a_cause_whose_ever_memory_it_is():
    def causes(command: str) -> set[str]:
        lines = open_lines(f"{command}\nCouldn't allocate MR with error=12\n")
        return {code for line in lines for code in line.codes}

    assert "memlock-limit" in causes(OF_A_HOST[0]) & causes(OF_GPUS[0])
    assert "bar1-exhausted" in causes(OF_GPUS[0]) - causes(OF_A_HOST[0])
