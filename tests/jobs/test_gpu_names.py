"""Names of GPUs in a log, and what they leave of the causes of its lines."""

from __future__ import annotations

import pytest

from gdrkit.jobs.document import document
from gdrkit.jobs.hosts import by_host, next_steps
from gdrkit.jobs.job import JobAnalysis
from gdrkit.jobs.text import text
from tests.jobs.samples import info, warn
from tests.jobs.test_samples import analysed

HEADER = "#  Rank  {rank} Group  0 Pid {pid} on {host:>10} device  0 [0000:01:00] {name}\n"
DISABLED = "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"
LEG = "Channel 00/0 : 0[0] -> 1[0] [{}] via NET/IB/0"


def job(*names: str, tag: str = "") -> str:
    """Two hosts, each with a GPU of a name, that go through host memory."""
    header = "".join(
        tag + HEADER.format(rank=rank, pid=7 + rank, host=f"n{rank}", name=name)
        for rank, name in enumerate(names)
    )
    ends = zip(("n0:7", "n1:8"), ("send", "receive"), strict=True)
    return header + "".join(info(process, 0, DISABLED, LEG.format(end)) for process, end in ends)


def causes(found: JobAnalysis) -> list[str]:
    (why,) = {reason.codes for rank in found.jobs[0].ranks for leg in rank.legs for reason in leg.reasons}
    return list(why)


@pytest.mark.parametrize("tag", ["", "[1,0]<stdout>: ", "0: "])
def test_a_geforce_is_the_likeliest_cause_and_not_a_proven_one(tag: str):
    found = analysed(job(*["NVIDIA GeForce RTX 5090"] * 2, tag=tag))
    report = document(found)

    assert causes(found)[:2] == ["gpu-consumer", "peermem-not-loaded"]
    assert "gpu-integrated" not in causes(found) and not report.findings
    assert list(next_steps(report, by_host(report))) == [
        "`gdr codes gpu-consumer` says what is left: NVIDIA supports no direct path from such a GPU"
    ]
    assert "the log names NVIDIA GeForce RTX 5090" in " ".join(text(report).split())


def test_an_integrated_gpu_is_the_cause_and_asks_for_no_command():
    report = document(analysed(job("NVIDIA GB10", "NVIDIA GB10")))

    assert [finding.code for finding in report.findings] == ["gpu-integrated"]
    assert list(next_steps(report, by_host(report))) == [
        "`gdr codes gpu-integrated` says what is left: NVIDIA supports no direct path from such a GPU"
    ]


def test_a_board_for_the_data_centre_has_no_cause_of_other_kinds():
    found = analysed(job("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"))

    assert {"gpu-integrated", "gpu-consumer"}.isdisjoint(causes(found))
    assert causes(found)[0] == "peermem-not-loaded" and len(list(found.findings)) == 0


def test_what_a_name_excludes_proves_no_other_cause():
    """The line about the distance may be missing, where NCCL enables the NIC and the GPU is an H100."""
    found = analysed(job("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3").replace("Disabled", "Enabled"))

    assert len(causes(found)) > 1 and not found.findings


@pytest.mark.parametrize(
    ("name", "first"),
    [("NVIDIA GeForce RTX 4090", "gpu-consumer"), ("NVIDIA H100 80GB HBM3", "peermem-not-loaded")],
)
def test_a_list_of_one_hosts_cards_puts_a_cause_of_others_first_and_excludes_none(name: str, first: str):
    listing = f"GPU 0: {name} (UUID: GPU-1a3c2d7e-9f40-4e0c-a2b5-6e0d3c1f7a55)\n"
    found = causes(analysed(listing + job()))
    assert found[0] == first and {"peermem-not-loaded", "gpu-consumer"} <= set(found)


def test_each_process_has_its_own_gpu():
    found = analysed(job("NVIDIA GeForce RTX 5090", "NVIDIA H100 80GB HBM3"))
    (first,), (second,) = (
        {reason.codes[0] for leg in rank.legs for reason in leg.reasons} for rank in found.jobs[0].ranks
    )

    assert (first, second) == ("gpu-consumer", "peermem-not-loaded")


FAILED = "Call to ibv_reg_mr_iova2 failed with error Bad address errno 14"
LISTED = "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-02cdc648-49bd-4725-805d-b7d138b6c1d4)\n"


def test_a_listing_of_gpus_is_of_the_only_host_and_of_two_excludes_nothing():
    one = warn("n1:7", 0, "misc/ibvwrap.cc:268", FAILED)
    two = one + warn("n2:7", 0, "misc/ibvwrap.cc:268", FAILED)

    assert analysed(LISTED + one).errors[0].codes[0] == "gpu-consumer"
    of_two = analysed(LISTED + two).errors[0].codes
    assert of_two[0] == "gpu-consumer" and "peermem-not-loaded" in of_two
    assert analysed(one).errors[0].codes[0] == "peermem-not-loaded"


WHOLE = "".join(info(process, 0, "Using network IB") for process in ("n0:7", "n1:8"))
"""A line of each process that `grep NET/IB` drops, as it does that of a refused distance."""


def test_a_log_of_which_grep_left_net_ib_alone_leaves_the_distance_open():
    log = job("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3").replace("Disabled", "Enabled")

    assert causes(analysed(log)) == ["pair-distant", "pair-cross-socket", "gpu-unsupported"]
    assert "pair-distant" not in causes(analysed(WHOLE + log))


@pytest.mark.parametrize(
    "name", ["NVIDIA H100 80GB HBM3", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"]
)
def test_no_gpu_is_said_to_have_no_direct_path_whose_name_does_not_say_so(name: str):
    """NCCL enables the NIC and goes through host memory: the kinds of GPUs are possible causes alone."""
    report = document(analysed(WHOLE + job(name, name).replace("Disabled", "Enabled")))

    assert not any("no direct path from such a GPU" in step for step in next_steps(report, by_host(report)))


def test_a_geforce_is_named_where_nccl_enables_the_nic():
    names = ["NVIDIA GeForce RTX 5090"] * 2
    report = document(analysed(WHOLE + job(*names).replace("Disabled", "Enabled")))

    (step,) = next_steps(report, by_host(report))
    assert "`gdr codes gpu-consumer`" in step
