"""What benchmarks in a pasted text measured."""

from __future__ import annotations

import pytest

from gdrkit.explain.outputs.measured import NIXLBENCH, measured
from gdrkit.explain.outputs.pasted_host import PastedHost
from tests.explain.explaining import explained

TITLE = (
    "Block Size (B)      Batch Size     B/W (GB/Sec)   Avg Lat. (us)  Avg Prep (us)  P99 Prep (us)  "
    "Avg Post (us)  P99 Post (us)  Avg Tx (us)    P99 Tx (us)    "
)
ROW = "16384               4              4.524677       3.6            62.0           62.0           7.3            8.0            7.1            11.0           "  # noqa: E501
LAST = "67108864            1              46.120001      1455.3         25.0           25.0           1.1            1.6            1454.2         1462.0         "  # noqa: E501


def facts(*lines: str) -> list[tuple[str, str, int | None]]:
    host = PastedHost("\n".join(lines) + "\n")
    return [(fact.name, fact.value, fact.line) for fact in measured(host.own_lines)]


def test_the_last_row_of_nixlbench_is_its_largest_block():
    assert facts(TITLE, "-" * 150, ROW, LAST) == [
        (NIXLBENCH, "46.120001 GB/s in blocks of 67108864 bytes", 4)
    ]


def test_a_row_without_its_title_is_nobodys():
    assert facts("$ ./bench", ROW) == []


def test_the_first_release_printed_other_columns():
    old = "Block Size (B)      Batch Size     Avg Lat. (us)  B/W (MiB/Sec)  B/W (GiB/Sec)  B/W (GB/Sec)   "
    assert (
        facts(
            old,
            "-" * 80,
            "4096                1              20.1           194.3          0.190          0.204",
        )
        == []
    )


RAS = "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n{}"
GROUP = "    0         8         4         1         4        32   RUNNING      {}\n"


def test_a_report_of_ras_without_errors_is_no_problem_and_one_with_errors_is_named():
    good = explained(RAS.format(GROUP.format("OK") + GROUP.format("OK"))).answer
    bad = explained(RAS.format(GROUP.format("OK") + GROUP.format("INCOMPLETE"))).answer

    assert (good.kind, "2 groups of communicators running" in good.sentence) == ("no-problem", True)
    assert bad.sentence == "NCCL's RAS reports a group of communicators as RUNNING, INCOMPLETE."


RULER = "-" * 87
RUN = (
    "                    RDMA_Write BW Test",
    " Number of qps   : 4\t\tTransport type : IB",
    RULER,
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
    " 65536      5000             {rate}             {rate}  \t\t   0.207260",
    RULER,
)


def test_each_of_two_runs_of_perftest_quotes_its_own_row():
    lines = [line.format(rate=rate) for rate in ("108.00", "96.00") for line in RUN]
    assert [(value.split()[0], line) for _, value, line in facts(*lines)] == [("13.5", 5), ("12", 11)]


OF_MEMORY = "\n".join((
    "$ ib_write_bw -d {device} -s 1048576 {options} --report_gbits peer",
    f"{{cuda}}{RUN[0]}",
    " Device         : {device}",
    RULER,
    RUN[3],
    " 1048576    6980             0.00               {rate}\t\t   0.001396\n",
))  # fmt: skip
GPU = "using DMA-BUF for GPU buffer address at 0x7f3f0 aligned at 0x7f3f0 with aligned size 2097152"
FROM_GPU = {"options": "--use_cuda=1 --use_cuda_dmabuf", "cuda": f"{GPU}\n"}
FROM_HOST = {"options": "-F", "cuda": ""}


@pytest.mark.parametrize(
    ("device", "rate", "slow"),
    [
        ("mlx5_0", "11.71", True),
        ("mlx5_0", "60.20", False),
        ("mlx5_1", "11.71", False),  # another NIC may have another link
    ],
)
def test_gpu_memory_that_is_far_slower_than_host_memory_is_no_all_clear(device: str, rate: str, slow: bool):
    host = OF_MEMORY.format(device="mlx5_0", rate="92.10", **FROM_HOST)
    runs = OF_MEMORY.format(device=device, rate=rate, **FROM_GPU) + host
    found = explained(runs).answer

    assert ("the direct path works, but slowly" in found.sentence) is slow
    assert ("acs-redirect" in [one.code for one in found.others]) is slow
    assert not slow or "13% of the 11.51 GB/s from host memory" in found.sentence


TIMED = "    310.0   27.06   {rate}      0"
TITLES = "#       size         count      type   redop    root" + "     time   algbw   busbw #wrong" * 2
RESULT = "  {size}      2097152     float     sum      -1" + TIMED * 2


def test_each_of_two_runs_of_nccl_tests_quotes_its_own_row():
    """The second run begins with the size that the first one ended with."""
    first = [RESULT.format(size=4194304, rate="10.00"), RESULT.format(size=8388608, rate="20.00")]
    second = RESULT.format(size=8388608, rate="40.00")
    average = "# Avg bus bandwidth    : {}"
    found = facts(TITLES, *first, average.format(15.0), TITLES, second, average.format(40.0))
    shown = [(value.partition(" GB/s")[0].split()[-1], line) for _, value, line in found]
    assert shown == [("20", 3), ("40", 6)]


PACKETS = f"{RUN[0]}\n Mtu             : {{}}[B]\n Link type       : {{}}\n"
LINK = "3: {}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {} qdisc mq state UP mode DEFAULT\n"
NO_LINK = "4: {}: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu {} qdisc mq state DOWN mode DEFAULT\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PACKETS.format(1024, "Ethernet"), "of 1024 bytes in this run"),
        (PACKETS.format(4096, "Ethernet"), ""),
        (PACKETS.format(2048, "IB"), ""),  # what its subnet manager sets
        (LINK.format("enp1s0f0np0", 1500), "by the Ethernet MTU of 1500 of enp1s0f0np0"),
        (LINK.format("enp1s0f0np0", 9000), ""),
        (NO_LINK.format("enp1s0f1np1", 1500), ""),
        (NO_LINK.format("enp1s0f1np1", 1500) + LINK.format("enp1s0f0np0", 1500), "1500 of enp1s0f0np0"),
        (LINK.format("eno1", 1500), ""),  # no port of an RDMA NIC, as far as its name shows
    ],
)
def test_small_packets_of_roce_are_shown_with_where_the_way_to_larger_ones_is(text: str, words: str):
    told = [one.value for machine in explained(text).machines for one in machine.known]
    found = [one for one in told if "gdr codes MTU" in one]
    assert [words in one for one in found] == [True] * bool(words)


PEERS = """[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA RTX A4000, pciBusID: 5, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=1 {} Access Peer Device=0
P2P Connectivity Matrix
     D\\D     0     1
     0\t     1     1
"""


@pytest.mark.parametrize(("other", "pairs"), [("CAN", "2 of 2 pairs"), ("CANNOT", "1 of 2 pairs")])
def test_access_from_gpu_to_gpu_is_said_to_show_nothing_of_a_nic(other: str, pairs: str):
    answer = explained(PEERS.format(other)).answer
    assert (answer.kind, answer.cause) == ("no-problem", None)
    assert pairs in answer.sentence and answer.sentence.endswith("nothing of the way to a NIC.")


def test_an_error_of_the_access_from_gpu_to_gpu_is_one_of_something_else():
    error = 'CUDA error at simpleP2P.cu:91 code={}({}) "{}(gpuid[1], 0)"\n'
    peers = explained(
        error.format(217, "cudaErrorPeerAccessUnsupported", "cudaDeviceEnablePeerAccess")
    ).answer
    assert peers.kind == "elsewhere" and "nothing of the way to a NIC" in peers.sentence
    other = explained(error.format(2, "cudaErrorMemoryAllocation", "cudaMalloc")).answer
    assert other.kind == "nothing" and "simpleP2P.cu:91" in other.lines[0].text


def test_the_words_of_peer_access_in_a_sentence_are_no_output():
    assert explained("On my cards peer access from GPU 0 to GPU 1 says No.\n").answer.kind == "no-output"
