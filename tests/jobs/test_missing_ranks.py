"""Which ranks a log lacks and where they are; and a job of one host, which needs no network."""

from __future__ import annotations

import pytest

from gdrkit.jobs.document import document, exit_code, summary
from gdrkit.jobs.missing_ranks import missing_words
from gdrkit.jobs.text import text
from tests.jobs.large_job import EACH, large_job
from tests.jobs.samples import info
from tests.jobs.test_samples import analysed

PLACED = "comm 0x1 rank {} nRanks 16 nNodes 2 localRanks 8 localRank {} MNNVL 0"
LISTED = "#  Rank {0:2} Group  0 Pid {1:6} on      {2} device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"


def without(log: str, *processes: str) -> str:
    return "".join(line for line in log.splitlines(keepends=True) if not line.startswith(processes))


def placed(ranks: int) -> str:
    """The lines of the first ranks that place them on two hosts."""
    return "".join(
        info(f"gpu0{1 + rank // EACH}:{4100 + rank}", rank % EACH, PLACED.format(rank, rank % EACH))
        for rank in range(ranks)
    )


def words(log: str) -> str:
    (job,) = analysed(log).jobs
    return "" if job.missing is None else missing_words(job.missing)


TWO, OTHERS = large_job(hosts=2), "ranks 8-15 are not in the log"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (TWO + placed(16), ""),
        (without(TWO, "gpu02:4111:"), "rank 11 is not in the log"),
        (without(TWO + placed(16), "gpu02:4111:"), "rank 11 is not in the log: it is on gpu02"),
        (without(TWO + placed(16), "gpu02:"), f"{OTHERS}: they are on 1 host without a line"),
        (without(TWO, "gpu02:"), OTHERS),
        (without(TWO, "gpu02:4111:", "gpu01:4100:"), "ranks 0, 11 are not in the log"),
        (LISTED.format(11, 4111, "gpu02") + without(TWO, "gpu02:4111:"),
         "rank 11 is not in the log: it is on gpu02"),
    ],
)  # fmt: skip
def test_missing_ranks_are_named_with_their_hosts_as_far_as_lines_show_them(log, said):
    assert words(log) == said
    assert (said in text(document(analysed(log)), width=200)) and ("not in the log" in said) is bool(said)


def test_a_process_that_prints_no_communicator_is_the_missing_rank():
    log = "".join(line for line in TWO.splitlines(keepends=True) if not line.startswith("gpu02:4111:"))
    late = info("gpu02:4111", 3, "NCCL_SOCKET_IFNAME set by environment to eth0")
    (job,) = analysed(log + late).jobs

    assert job.missing is not None and job.missing.processes == ("gpu02:4111",)
    assert missing_words(job.missing).startswith("rank 11 does not start: gpu02:4111 prints")
    without_channels = "".join(
        line for line in (log + late).splitlines(keepends=True) if " via " not in line
    )
    assert summary(analysed(without_channels)) == "no channel line: ranks wait for gpu02:4111"


def test_of_two_such_processes_none_is_known_to_be_the_missing_rank():
    log = "".join(line for line in TWO.splitlines(keepends=True) if not line.startswith("gpu02:4111:"))
    late = "".join(
        info(f"gpu02:{pid}", 3, "NCCL_SOCKET_IFNAME set by environment to eth0") for pid in (4111, 9999)
    )
    (job,) = analysed(log + late).jobs
    assert job.missing is not None and job.missing.processes == () and job.missing.hosts == ()


def test_ranks_are_counted_where_their_numbers_are_of_several_communicators():
    """Two ranks print number 0: which ones of the largest communicator are missing is not known."""
    start = (
        "ncclCommInitRank comm 0x1 rank 0 nranks {} cudaDev 0 nvmlDev 0 busId 1b000 commId 0x{} - Init START"
    )
    log = info("a:1", 0, start.format(4, "a")) + info("a:1", 0, start.format(2, "b"))
    log += info("b:1", 0, start.format(2, "b"))
    assert words(log) == "2 ranks are not in the log"


def test_a_number_of_a_hostile_log_names_no_rank():
    start = (
        "ncclCommInitRank comm 0x1 rank 0 nranks {} cudaDev 0 nvmlDev 0 busId 1b000 commId 0xa - Init START"
    )
    assert words(info("a:1", 0, start.format(9_999_999))) == "9999998 ranks are not in the log"


INSIDE = "".join(line for line in large_job(hosts=1).splitlines(keepends=True) if "via NET/" not in line)


def test_a_job_of_one_host_needs_no_network():
    found = analysed(INSIDE)
    shown = text(document(found), width=200)

    assert found.jobs[0].on_one_host and exit_code(document(found)) == 3
    assert summary(found) == "8 ranks on one host: no network is needed; NCCL uses P2P"
    assert "run the job on two hosts" in shown and "has no line about which GPU" not in shown


def pods(nodes: int) -> str:
    """Two pods of NCCL 2.27.5, each of which is a node to it unless NCCL_HOSTID is alike: NVIDIA/nccl issue
    1781."""
    start = "ncclCommInitRank comm 0x1 rank {0} nranks 2 cudaDev 0 nvmlDev {1} busId {1}000 commId 0xe4"
    place = "comm 0x1 rank {0} nRanks 2 nNodes {1} localRanks {2} localRank {3} MNNVL 0"
    leg = "Channel 00/0 : {0}[{1}] -> {2}[{3}] via P2P/CUMEM"
    return "".join(
        info(
            f"pod-{rank}:{298 + rank}", 0,
            f"{start.format(rank, 2 * rank)} - Init START",
            place.format(rank, nodes, 3 - nodes, rank * (2 - nodes)),
            leg.format(rank, 2 * rank, 1 - rank, 2 - 2 * rank),
        )
        for rank in (0, 1)
    )  # fmt: skip


def test_pods_of_one_host_need_no_network():
    found = analysed(pods(nodes=1))

    assert summary(found) == "2 ranks on one host: no network is needed; NCCL uses P2P"
    assert "2 ranks on 1 host of 2 names" in text(document(found), width=200)
    assert not analysed(pods(nodes=2)).jobs[0].on_one_host


@pytest.mark.parametrize(
    "log",
    [
        without(INSIDE, "gpu01:4107:"),  # the eighth rank may be anywhere
        "".join(
            line for line in INSIDE.splitlines(keepends=True) if " via " in line
        ),  # no line counts ranks
        "".join(line for line in INSIDE.splitlines(keepends=True) if " via " not in line),  # nor places them
        INSIDE.replace("gpu01:4107:", "gpu02:4107:"),
    ],
)
def test_a_job_may_have_other_hosts(log):
    assert not any(job.on_one_host for job in analysed(log).jobs)
    assert "no network is needed" not in summary(analysed(log))
