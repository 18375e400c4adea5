"""A limit of the hardware is the answer only where a line fails because of it."""

from __future__ import annotations

import pytest

from gdrkit import catalogue
from gdrkit.catalogue import every_message, rule_of
from gdrkit.explain.chains import BEHIND
from gdrkit.explain.products import CARDS
from gdrkit.facts.modules import PEERMEM
from gdrkit.formats.module_name import canonical
from gdrkit.rules.capabilities import REGISTRATION
from tests.explain.explaining import EINVAL, codes, explained
from tests.messages.samples import sample

LISTED = "GPU 0: NVIDIA {} (UUID: GPU-1b2c3d4e-0001-4a5b-8c9d-0e1f2a3b4c5d)\n"
CARD = {"gpu-consumer": "GeForce RTX 4090", "gpu-integrated": "GB10"}
WARNS = "rig1:1:2 [0] misc/ibvwrap.cc:190 NCCL WARN Call to {} failed with error {}\n"
SHORT = WARNS.format("ibv_create_cq", "Cannot allocate memory")
OTHERWISE = {
    "rig1:1:2 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.2<51> failed : No route"
    " to host\n": "elsewhere",
    "[ 9.2] NVRM: Xid (PCI:0000:01:00): 79, pid=7, name=x, GPU has fallen off the bus.\n": "gpu-needs-reset",
    "$ ibstat\nCA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n": "port-down",
    "\tLnkSta:\tSpeed 8GT/s, Width x4 (downgraded)\n": "several",
    SHORT + "$ ulimit -l\n64\n": "memlock-limit",
    WARNS.format("ibv_modify_qp", "Connection timed out"): "rail-unreachable",
    "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n": "several",
    "$ ibv_devinfo\nNo IB devices found\n": "several",
    "Failed to initialize NVML: Driver/library version mismatch\n": "driver-mismatch",
    "$ mytool run\nmytool: error: cannot open the file\n": "nothing",
}
"""Outputs that fail for another reason than the kind of GPU, with the cause, or the kind of the answer."""


@pytest.mark.parametrize("failing", OTHERWISE)
@pytest.mark.parametrize("code", CARD)
def test_a_failure_of_something_else_is_answered_and_the_gpu_is_said_beside_it(code: str, failing: str):
    listed = LISTED.format(CARD[code])
    for text in (listed + failing, f"{failing}$ nvidia-smi -L\n{listed}"):
        found = explained(text).answer
        assert OTHERWISE[failing] in (found.cause, found.kind)
        assert code in codes(text) and code not in [one.code for one in found.others]


@pytest.mark.parametrize(
    "failing",
    [
        EINVAL + "\n",
        "$ ib_write_bw --use_cuda=0 10.0.0.2\nCouldn't allocate MR with error=14\n",
        "h1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n",
        "[1.3] [n1:8:0] cuda_copy_md.c:99 UCX  ERROR dmabuf is not supported on cuda device 0\n",
        "",
    ],
)
@pytest.mark.parametrize("code", CARD)
def test_what_the_kind_of_gpu_brings_about_has_it_as_its_cause(code: str, failing: str):
    assert explained(LISTED.format(CARD[code]) + failing).answer.cause == code


def test_one_line_that_fails_by_it_is_enough():
    asked = "$ ib_write_bw --use_cuda=0 10.0.0.2\nCouldn't allocate MR with error=14\n$ ulimit -l\n64\n"
    assert explained(LISTED.format("GeForce RTX 4090") + asked).answer.cause == "gpu-consumer"


@pytest.mark.parametrize("code", CARD)
def test_no_message_of_the_catalogue_has_the_hardware_as_its_cause_that_it_does_not_name(code: str):
    """Each message that reports a failure, below the name of such a GPU."""
    explains = {*CARDS, *(deep for card in CARDS for deep in BEHIND.get(card, ()))}
    rows = [row for row in every_message() if row.causes and not (row.states or row.goes_on)]
    assert len(rows) > 300
    for row in rows[list(CARD).index(code) :: len(CARD)]:
        line = sample(row).removesuffix(": ")  # what ends in a colon introduces an output
        match = catalogue.match(line)
        if match is not None and explains.isdisjoint(match.causes) and PEERMEM not in canonical(line):
            found = explained(f"{LISTED.format(CARD[code])}$ ./job\n{line}\n").answer
            assert found.cause is None or not rule_of(found.cause).permanent >= set(REGISTRATION), line


def test_a_device_that_no_listing_names_may_have_what_those_that_are_listed_lack():
    listed = LISTED.format("H100 80GB HBM3")
    assert (
        explained(listed + next(one for one in OTHERWISE if "Xid" in one)).answer.cause == "gpu-needs-reset"
    )


RANKS = "".join(
    f"#  Rank  {rank} Group  0 Pid  {pid} on spark-{rank} device  0 [000f:01:00] NVIDIA {{}}\n"
    for rank, pid in enumerate((11873, 9022))
)
NO_DEVICE = "spark-0:11873:11880 [0] NCCL INFO {}NET/IB : No device found.\n".format(
    "NCCL_IB_HCA set to rocep1s0f0\nspark-0:11873:11880 [0] NCCL INFO "
)
OF_JOBS = {
    NO_DEVICE + "spark-0:11873:11880 [0] NCCL INFO Using network Socket\n": "hca-not-selected",
    "spark-0:11873:11899 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4> with status=12 opcode=0"
    " len=0 vendor err 129 (Send)\n": "retry-exceeded",
    "spark-0:11873:11880 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    "spark-0:11873:11880 [0] NCCL INFO Using network Socket\n"
    "spark-0:11873:11880 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n": (
        "ib-disabled-by-env"
    ),
}
"""Logs of jobs that fail, or go over TCP, for another reason than the kind of GPU in their header."""


@pytest.mark.parametrize("log", OF_JOBS)
@pytest.mark.parametrize("code", CARD)
def test_the_header_of_a_job_is_no_failure_of_its_log(code: str, log: str):
    text = RANKS.format(*[CARD[code]] * 2) + log
    found = explained(text).answer

    assert (found.cause or found.others[0].code) == OF_JOBS[log]
    assert code in codes(text)


def test_the_header_of_a_job_that_nccl_finds_no_direct_path_for_is_the_cause():
    disabled = "spark-0:11873:11880 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    leg = "spark-0:11873:11880 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n"

    assert explained(RANKS.format("GB10", "GB10") + disabled + leg).answer.cause == "gpu-integrated"


def test_a_job_that_hangs_on_one_host_does_not_hang_by_what_its_gpus_lack_for_a_network():
    ranks = (
        RANKS.replace("spark-1", "spark-0")
        .replace("9022", "11873")
        .replace("device  0 [000f:01", "device  0 [0000:2c")
    )
    log = "".join(
        f"spark-0:11873:{thread} [{rank}] NCCL INFO {line}\n"
        for rank, thread in enumerate((11880, 11881))
        for line in (
            f"ncclCommInitAll comm 0x5566 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank}"
            f" busId {rank + 2}c000 commId 0x1122 - Init START",
            f"Channel 00/0 : {rank}[{rank}] -> {1 - rank}[{1 - rank}] via P2P/direct pointer",
        )
    )
    table = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    found = explained(ranks.format(*["GeForce RTX 4090"] * 2) + log + table).answer

    assert found.kind == "nothing" and "It may hang" in found.sentence
