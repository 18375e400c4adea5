"""Several jobs, communicators and processes in the same logs; a thousand ranks; missing lines."""

from __future__ import annotations

import re

import pytest

from gdrkit.jobs.document import document, exit_code, summary
from gdrkit.jobs.job import LoggedKinds
from gdrkit.jobs.text import text
from gdrkit.programs.nccl.log import COMPARED
from tests.jobs.large_job import large_job
from tests.jobs.samples import info, warn
from tests.jobs.test_samples import analysed

START = (
    "ncclCommInitRank comm 0x1 rank {rank} nranks {ranks} cudaDev {gpu} nvmlDev {gpu} busId {gpu}b000 "
    "commId {id} - Init START"
)
LEG = "Channel 0{channel}/0 : {rank}[{gpu}] -> {peer}[{gpu}] [send] via NET/IB/{gpu}{gdr}"


def member(
    process: str, rank: int, ranks: int, identifier: str, *, gpu: int = 0, gdr: str = "/GDRDMA"
) -> str:
    """One rank's start and one channel."""
    values = {"rank": rank, "ranks": ranks, "gpu": gpu, "id": identifier, "gdr": gdr, "channel": 0}
    return info(process, gpu, START.format(**values), LEG.format(peer=(rank + 1) % ranks, **values))


OFF = {"NCCL_CUMEM_ENABLE": "mnnvl-cumem-off", "NCCL_MNNVL_ENABLE": "mnnvl-disabled-by-env"}


def _with(name: str, value: str, more: str = "", peer: str = "b") -> str:
    line = f"{name} set by environment to {value}."
    lines = info("a:1", 0, line, *filter(None, [more])) + info(f"{peer}:2", 0, line)
    members = member("a:1", 0, 2, "0x1") + member(f"{peer}:2", 1, 2, "0x1")
    return f"NCCL version 2.27.5+cuda12.9\n{lines}{members}"


@pytest.mark.parametrize(
    ("log", "status"),
    [
        (_with("NCCL_CUMEM_ENABLE", "0", "NCCL_MNNVL_ENABLE set by environment to 1."), "warning"),
        (_with("NCCL_CUMEM_ENABLE", "0"), "note"),  # as old releases of vLLM set it on any machine
        (_with("NCCL_MNNVL_ENABLE", "0"), "note"),
        (
            _with("NCCL_CUMEM_ENABLE", "0", "NCCL_MNNVL_ENABLE set by environment to 2."),
            "note",
        ),  # the default
        (_with("NCCL_CUMEM_ENABLE", "1"), ""),
        (_with("NCCL_CUMEM_ENABLE", "0", peer="a"), ""),  # one host needs none
    ],
)
def test_nvlink_between_hosts_that_is_switched_off_is_a_finding(log: str, status: str):
    found = [(one.code in OFF.values(), one.status, one.ranks) for one in analysed(log).findings]
    assert found == ([(True, status, 2)] if status else [])


def test_two_jobs_one_after_the_other_are_two():
    first = "NCCL version 2.20.5+cuda12.4\n" + member("a:1", 0, 2, "0x1") + member("b:1", 1, 2, "0x1")
    second = (
        "NCCL version 2.27.5+cuda12.9\n" + member("a:9", 0, 2, "0x2") + member("b:9", 1, 2, "0x2", gdr="")
    )
    found = analysed(first + second)

    assert [(job.nccl_versions, [rank.rank for rank in job.ranks]) for job in found.jobs] == [
        (("2.20.5",), [0, 1]),
        (("2.27.5",), [0, 1]),
    ]
    assert (found.counts.direct, found.counts.bounced) == (3, 1)
    assert not any(finding.code == "versions-differ-between-ranks" for finding in found.findings)


def test_old_jobs_without_identifiers_are_separated_by_their_second_rank_0():
    old = "comm 0x1 rank {} nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE"
    leg = "Channel 00 : 0[1b000] -> 1[1b000] [send] via NET/IB/0"
    log = "".join(
        info(f"{host}:{pid}", 0, old.format(rank), leg) for pid in (1, 2) for rank, host in enumerate("ab")
    )

    assert [len(job.ranks) for job in analysed(log).jobs] == [2, 2]


def test_ranks_are_numbered_by_the_largest_communicator():
    world = [member(f"n{rank // 2}:{40 + rank}", rank, 4, "0xa", gpu=rank % 2) for rank in range(4)]
    pairs = [
        member(f"n{rank // 2}:{40 + rank}", rank % 2, 2, f"0xb{rank // 2}", gpu=rank % 2)
        for rank in range(4)
    ]
    (job,) = analysed("".join(pairs + world)).jobs

    assert [rank.rank for rank in job.ranks] == [0, 1, 2, 3]
    assert (job.communicators, job.expected) == (3, 4)


def test_one_process_with_eight_gpus_is_eight_ranks():
    log = "".join(member("n1:7", rank, 8, "0x1", gpu=rank) for rank in range(8))
    (job,) = analysed(log).jobs

    assert [(rank.rank, rank.cuda_device, rank.gpu) for rank in job.ranks] == [
        (n, n, f"{n}b000") for n in range(8)
    ]


def test_ranks_without_lines_are_unknown():
    counts = analysed(member("n1:7", 3, 1024, "0x1")).counts

    assert (counts.ranks, counts.expected, counts.unknown) == (1, 1024, 1023)


def test_a_job_whose_ranks_the_log_shows_only_in_part_is_unknown():
    """The first lines of a log of 128 ranks, which all go directly as far as it goes."""
    whole = large_job()
    cut = analysed("".join(whole.splitlines(keepends=True)[:300]))

    assert (cut.state, exit_code(document(cut))) == ("unknown", 3)
    assert summary(cut) == "16 of 128 ranks direct; 112 are not in the log"
    assert analysed(whole).state == "active", "the near miss: all ranks are there"
    assert analysed(large_job(staged=("gpu01",)).partition("gpu03:")[0]).state == "blocked"


def test_a_device_is_idle_only_if_its_host_is_in_the_log_to_its_last_channel():
    """One host: its eighth NIC has no channel yet where the log ends."""
    lines = large_job(hosts=1).splitlines(keepends=True)
    ends = next(i for i, line in enumerate(lines) if "/7/GDRDMA" in line)
    codes = [one.code for one in analysed("".join(lines[:ends])).findings]
    idle = large_job(hosts=1).replace("NET/IB/7", "NET/IB/6")

    assert "hca-not-selected" not in codes
    assert [one.code for one in analysed(idle).findings] == ["hca-not-selected"]


def test_one_of_a_thousand_ranks_differs():
    log = "".join(
        member(
            f"n{rank // 8}:{4000 + rank}",
            rank,
            1024,
            "0x1",
            gpu=rank % 8,
            gdr="" if rank == 777 else "/GDRDMA",
        )
        for rank in range(1024)
    )
    found = analysed(log)

    assert (found.counts.direct, found.counts.bounced) == (1023, 1)
    assert [rank.rank for rank in found.jobs[0].ranks if rank.legs[0].reasons] == [777]


def test_a_missing_line_does_not_prove_anything():
    found = analysed(member("n1:7", 0, 2, "0x1", gdr=""))
    (reason,) = found.jobs[0].ranks[0].legs[0].reasons

    assert "does not show" in reason.text and reason.codes == ()
    assert found.logged == LoggedKinds(
        nccl=True, channels=True, net=False, env=False, init=True, slurm=False
    )


def test_environments_are_compared_only_among_ranks_that_print_them():
    level = "NCCL_NET_GDR_LEVEL set by environment to PHB"
    one = info("n1:7", 0, level, "NCCL_IB_HCA set by environment to mlx5_0") + member("n1:7", 0, 3, "0x1")
    two = info("n2:7", 0, "NCCL_IB_HCA set by environment to mlx5_4") + member("n2:7", 1, 3, "0x1")
    silent = member("n3:7", 2, 3, "0x1")

    def codes(log: str) -> list[str]:
        return [finding.code for finding in analysed(log).findings]

    assert codes(one + two) == ["env-differs-between-ranks"], "the list of devices may differ with the host"
    assert codes(one + silent) == []


def test_the_most_common_value_is_named_first_and_the_ranks_of_the_others_are_counted():
    def rank(number: int, level: str) -> str:
        text = f"NCCL_NET_GDR_LEVEL set by environment to {level}"
        return info(f"n{number}:7", 0, text) + member(f"n{number}:7", number, 4, "0x1")

    log = rank(0, "SYS") + rank(1, "PHB") + rank(2, "PIX") + rank(3, "PHB")
    (finding,) = [one for one in analysed(log).findings if one.code == "env-differs-between-ranks"]

    assert finding.seen == "NCCL_NET_GDR_LEVEL is PHB on n1:7 and 1 more, PIX on n2:7, SYS on n0:7"
    assert finding.ranks == 2


def test_of_many_values_the_first_lines_of_four_are_quoted():
    def rank(number: int, level: str) -> str:
        text = f"NCCL_NET_GDR_LEVEL set by environment to {level}"
        return info(f"n{number}:7", 0, text) + member(f"n{number}:7", number, 6, "0x1")

    for values in (3, 4, 5, 6):
        levels = ("LOC", "PIX", "PXB", "PHB", "NODE", "SYS")[:values]
        found = analysed("".join(rank(*row) for row in enumerate(levels))).findings
        (finding,) = [one for one in found if one.code == "env-differs-between-ranks"]
        assert len(finding.lines) == min(values, 4)


def test_a_variable_that_is_equal_everywhere_hides_none_that_differs():
    def rank(number: int, port: str) -> str:
        equal = [f"{name} set by environment to 1" for name in COMPARED if name != COMPARED[-1]]
        text = f"{COMPARED[-1]} set by environment to {port}"
        return info(f"n{number}:7", 0, *equal, text) + member(f"n{number}:7", number, 2, "0x1")

    found = analysed(rank(0, "2") + rank(1, "3")).findings

    assert [one.subject for one in found if one.code == "env-differs-between-ranks"] == [COMPARED[-1]]


@pytest.mark.parametrize(("hca", "shown"), [(0, True), (1, False)])
def test_what_a_line_says_of_one_nic_is_no_reason_of_another(hca, shown):
    """The channel goes through NIC 0."""
    enabled = f"NET/IB : GPU Direct RDMA Enabled for HCA {hca} 'mlx5_{hca}'"
    log = "NCCL version 2.20.5+cuda12.4\n" + info("n1:7", 0, enabled) + member("n1:7", 0, 2, "0x1", gdr="")
    (reason,) = analysed(log).jobs[0].ranks[0].legs[0].reasons

    assert ("the NIC's side is enabled" in reason.text) == shown


def test_processes_with_equal_ids_on_similarly_named_hosts_stay_separate():
    log = member("node1:88", 0, 2, "0x1") + member("gpu-node1:88", 1, 2, "0x1", gdr="")

    assert [rank.process for rank in analysed(log).jobs[0].ranks] == ["node1:88", "gpu-node1:88"]


def test_the_first_error_of_a_kind_is_shown_and_consequences_come_last():
    flush = "NET/IB : Got completion from peer 10.0.0.2<3> with status=5 opcode=0 len=0 vendor err 249"
    retry = flush.replace("status=5", "status=12").replace("249", "129")
    log = warn("n1:7", 0, "net_ib.cc:1", flush) + warn("n2:8", 0, "net_ib.cc:1", retry) * 2
    first, last = analysed(log).errors

    assert (first.number, first.count, first.line.line, last.number) == (12, 2, 4, 5)


def test_a_log_of_amds_library_has_no_cause_of_nvidias_stack():
    """Its lines have the same words, and no nvidia-peermem can be missing."""
    lines = (
        "NET/IB : GPU Direct RDMA Disabled for HCA 0 'bnxt_re0'",
        "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0",
    )
    failed = warn("g:42", 0, "ibvwrap.cc:1", "Call to ibv_reg_mr failed with error Bad address")

    def named(version: str) -> set[str]:
        found = analysed(info("g:42", 0, version, *lines) + failed)
        reasons = [
            why for job in found.jobs for rank in job.ranks for leg in rank.legs for why in leg.reasons
        ]
        assert reasons
        return {code for one in (*reasons, *found.errors) for code in one.codes}

    assert "peermem-not-loaded" in named("NCCL version 2.22.3")
    assert named("RCCL version : 2.22.3") == set()


def test_channels_name_ranks_whose_own_lines_are_missing():
    """The healthy host of a job whose other host goes through host memory, without a line of the start."""
    lines = large_job(hosts=2, staged=("gpu02",)).splitlines(keepends=True)
    channels = [line for line in lines if " via NET/" in line]
    half = [line for line in channels if line.startswith("gpu01")]
    cut = analysed("".join(half))

    assert (cut.state, exit_code(document(cut))) == ("unknown", 3)
    assert summary(cut) == "8 of at least 16 ranks direct; 8 are not in the log"
    assert analysed("".join(channels)).state == "blocked"
    healthy = [line for line in large_job(hosts=2).splitlines(keepends=True) if " via NET/" in line]
    assert analysed("".join(healthy)).state == "active", "the near miss: all that channels name are there"


def test_the_printed_size_of_a_job_outweighs_what_a_damaged_channel_names():
    """Two lines that were written into each other can make a peer of any number."""
    log = member("a:1", 0, 2, "0x1") + member("b:1", 1, 2, "0x1").replace("-> 0[0]", "-> 10[0]")

    assert (analysed(log).state, analysed(log).counts.expected) == ("active", 2)


@pytest.mark.parametrize(("gpu", "jobs", "state"), [(0, 1, "active"), (1, 2, "unknown")])
def test_a_rank_of_another_gpu_than_its_peers_name_is_of_another_communicator(gpu, jobs, state):
    """Ray prints one pod's start, and the channels of another one: rank 1 of each pair of GPUs."""
    start = START.format(rank=0, ranks=2, gpu=0, id="0x9b")
    legs = ("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA")  # fmt: skip
    other = f"Channel 00/0 : 0[{gpu}] -> 1[{gpu}] [receive] via NET/IB/{gpu}/GDRDMA"
    found = analysed(info("a:5969", 0, start, *legs) + info("b:627", gpu, other))

    assert (len(found.jobs), found.state) == (jobs, state)
    assert found.crossing is None, "rails are compared within one communicator"


def test_ranks_of_several_communicators_are_not_counted_against_the_largest():
    """Tensor parallel inside each host, pipeline parallel between two: four ranks, the largest of two."""
    starts = [("a:1", "0x1", 0), ("a:2", "0x1", 1), ("b:1", "0x2", 0), ("b:2", "0x2", 1)]
    between = [("a:1", "0x3", 0), ("b:1", "0x3", 1)]
    log = "".join(
        info(process, 0, START.format(rank=rank, ranks=2, gpu=0, id=identifier))
        for process, identifier, rank in (*starts, *between)
    )
    page = text(document(analysed(log)), width=200)

    assert "4 ranks in 3 communicators on 2 hosts" in page
    assert " of 2 ranks" not in page
    assert re.findall(r"rank \d of \w+  \w:\d", page) == [
        "rank 0 of 0x3  a:1", "rank 1 of 0x1  a:2", "rank 1 of 0x3  b:1", "rank 1 of 0x2  b:2"
    ], "each by the communicator in which it has that number"  # fmt: skip


def test_ranks_of_one_communicator_need_no_name_of_it():
    log = member("a:1", 0, 2, "0x1") + member("b:1", 1, 2, "0x1")
    assert "of 0x1" not in text(document(analysed(log)), width=200)
