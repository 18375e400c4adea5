"""The lines of several ranks' watchdogs, in the forms of public threads with other numbers."""

from __future__ import annotations

import pytest

from gdrkit.messages.torch_watchdog import TIMED_OUT, Lagging, Operation, Progress, stalled, watchdog_record

WORLD = "ID 0 PG GUID 0(default_pg)"


def timed_out(rank: int, work: int, kind: str = "ALLREDUCE", size: int = 1024) -> str:
    return (
        f"[rank{rank}]:[E810 03:04:11.061727749 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={work}, OpType={kind}, NumelIn={size}, "
        f"NumelOut={size}, Timeout(ms)=600000) ran for 600096 milliseconds before timing out."
    )


def progress(rank: int, work: int, enqueued: int, group: str = WORLD, *, group_rank: int = -1) -> str:
    """As PyTorch 2.6 and newer print it."""
    inner = rank if group_rank < 0 else group_rank
    return (
        f"[rank{rank}]:[E810 03:04:11.063313477 ProcessGroupNCCL.cpp:2241] [PG {group} Rank {inner}] "
        f" failure detected by watchdog at work sequence id: {work} PG status: last enqueued work:"
        f" {enqueued}, last completed work: {work - 1}"
    )


def hears_of_it(rank: int, enqueued: int) -> str:
    """What a process prints whose own watchdog has nothing to report."""
    return (
        f"[rank{rank}]:[E810 03:04:11.530123445 ProcessGroupNCCL.cpp:1858] [PG {WORLD} Rank {rank}] "
        "Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump"
        f" the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {enqueued}.This is"
    )


def hang(rank: int, work: int, enqueued: int, kind: str = "ALLREDUCE", size: int = 1024) -> list[str]:
    return [timed_out(rank, work, kind, size), progress(rank, work, enqueued)]


def shown(lines: list[str]) -> str:
    found = ((number, watchdog_record(line)) for number, line in enumerate(lines, 1))
    stall = stalled((number, record) for number, record in found if record is not None)
    return "" if stall is None else stall.words


SEVEN = [line for rank in (0, 1, 2, 3, 4, 6, 7) for line in hang(rank, 807, 808)]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([*SEVEN, progress(5, 806, 806)],
         "Rank 5 did not start operation 807 (ALLREDUCE), or did not return from that call;"
         " 7 ranks hang in it"),
        ([*(line for r in (1, 2, 3) for line in hang(r, 78, 79, "BROADCAST")), hears_of_it(0, 77),
          hears_of_it(4, 77)],
         "Ranks 0, 4 did not start operation 78 (BROADCAST), or did not return from that call;"
         " 3 ranks hang in it"),
        ([*SEVEN, *hang(5, 807, 807, "ALLGATHER", 1)],
         "Rank 5 runs ALLGATHER as operation 807, where 7 other ranks run ALLREDUCE"),
        ([*SEVEN, *hang(5, 807, 808, size=44)],
         "Rank 5 runs ALLREDUCE with 44 elements as operation 807, where 7 other ranks run it with 1024"),
        ([*SEVEN, *hang(5, 808, 808)],
         "Rank 5 hang in operation 808, and 7 ranks hang in operation 807 (ALLREDUCE)"),
    ],
)  # fmt: skip
def test_the_rank_that_differs_is_named(lines, words):
    assert shown(lines) == words


@pytest.mark.parametrize(
    "lines",
    [
        [*SEVEN, *hang(5, 807, 808, "ALLREDUCE", 1024)],
        [*SEVEN, hears_of_it(5, 808)],  # its program goes on; only its watchdog was faster
    ],
)
def test_where_no_rank_is_behind_none_is_named(lines):
    assert "none of the ranks in the text is behind" in shown(lines)


@pytest.mark.parametrize(
    "lines",
    [
        hang(5, 807, 808),  # one rank alone
        [timed_out(3, 7), timed_out(4, 9)],  # no line names the process group
        # two groups that one process counts alike, of tensor parallelism on two hosts
        [*(progress(r, 5, 5, "1", group_rank=r % 2) for r in (0, 1)),
         *(progress(r, 3, 3, "1", group_rank=r % 2) for r in (2, 3))],
        # the same, where each group shows one rank
        [progress(0, 5, 5, "1", group_rank=0), progress(3, 3, 3, "1", group_rank=1)],
        [progress(97, 1, 1, "ID 21 PG GUID 193(ep)", group_rank=6),
         progress(107, 2, 2, "ID 21 PG GUID 195(ep)", group_rank=3)],
    ],
)  # fmt: skip
def test_ranks_of_several_groups_are_not_compared(lines):
    assert shown(lines) == TIMED_OUT.words


def test_ranks_of_a_named_group_are_named_by_their_place_in_the_job():
    group = "ID 3 PG GUID 12(mesh_ep)"
    lines = [progress(8 + r, 40, 40, group, group_rank=r) for r in range(3)]
    lines.append(progress(11, 39, 39, group, group_rank=3))
    assert shown(lines).startswith("Rank 11 did not start operation 40, or")


@pytest.mark.parametrize("kind", ["SEND", "RECV", "COALESCED"])
def test_operations_of_two_ranks_may_differ(kind):
    assert shown([*SEVEN, *hang(5, 3, 3, kind)]) == TIMED_OUT.words


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ("\t     [7] finished collective #182, but didn't join collective #183 (count from 1)",
         Lagging("rank 7", "183")),
        ("\t - To our best knowledge, ranks [2, 3, 5] are the lagging ranks that caused this timeout. They",
         Lagging("ranks 2-3, 5", "")),
        ("missing ranks: {3, 4, 5}", Lagging("ranks 3-5", "")),
        ("\t   - [0, 1] joined but didn't finish collective #730 (count from 1)", None),
        ("the collector reports missing ranks: {7} of its own", None),
        ("[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL"
         " work: 1, last completed NCCL work: 76280750235782912.", Progress(2, "0", 2, 1, 1, False)),
        ("[rank12]:[E909 09:55:29.3 ProcessGroupNCCL.cpp:1664] [PG 0 (default_pg) Rank 12] Exception (either"
         " an error or timeout) detected by watchdog at work: 2070, last enqueued NCCL work: 2082, last"
         " completed NCCL work: 2069.", Progress(12, "0(default_pg)", 12, 2070, 2082, False)),
        ("[E ProcessGroupNCCL.cpp:458] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL("
         "SeqNum=64088, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25625251 milliseconds",
         Operation(7, 64088, "ALLREDUCE", "")),
    ],
)  # fmt: skip
def test_lines_of_each_release_are_read(line, record):
    assert watchdog_record(line) == record


def test_the_analysis_of_pytorch_decides_before_ours():
    assert shown([*SEVEN, "missing ranks: {5}"]) == (
        "PyTorch reports that rank 5 did not join the operation in which the others wait"
    )


def test_of_two_attempts_the_first_decides():
    again = [line for rank in range(8) for line in hang(rank, 12, 13)]
    assert shown([*SEVEN, progress(5, 806, 806), *again]).startswith("Rank 5 did not start operation 807")


def _waits(rank: int) -> str:
    return (
        f"[rank{rank}]:[E321 02:07:08.45 ProcessGroupNCCL.cpp:1664] [PG 1 Rank {rank}] Exception (either an"
        " error or timeout) detected by watchdog at work: 1580, last enqueued NCCL work: 1582, last"
        " completed NCCL work: 1579."
    )


@pytest.mark.parametrize(
    ("ranks", "silent"),
    [
        ([0, 1, 2, 4, 5], "rank 3 of their group has no line"),
        ([1, 2, 3, 6, 7, 8], "ranks 0, 4-5 of their group have no line"),
        ([0, 1, 2, 3], "none of the ranks in the text is behind"),
        ([0, 511], "none of the ranks in the text is behind"),  # a log that was cut
    ],
)
def test_ranks_without_a_line_among_those_that_wait_are_named(ranks, silent):
    found = [(at, record) for at, rank in enumerate(ranks) if (record := watchdog_record(_waits(rank)))]
    stall = stalled(found)
    assert stall is not None and silent in stall.words
    if "no line" in silent:
        assert stall.todo.startswith(f"Look at {silent.partition(' of ')[0]} first")
