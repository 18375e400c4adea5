"""Completions with an error in perftest: whose memory was refused, and CPUs that forward no reads."""

from __future__ import annotations

import pytest

from gdrkit.explain.explanation import Answer
from tests.explain.explaining import explained

CPU = '$ lscpu | grep "Model name"\nModel name:                           {}\n'
RUN = (
    "$ ib_{0}_bw -d mlx5_0 --use_cuda=0 --use_cuda_dmabuf 10.10.10.11\n"
    "using DMA-BUF for GPU buffer address at 0x7f31c2000000 aligned at 0x7f31c2000000 with aligned size"
    " 131072\n"
    "                    RDMA_{1} BW Test\n"
    " Completion with error at client\n"
    " Failed status {2}: wr_id 0 syndrom 0x89\n"
)
READ, WRITE = RUN.format("read", "Read", "10"), RUN.format("write", "Write", "{}")
DESKTOP = CPU.format("Intel(R) Core(TM) Ultra 9 285K")


def answered(text: str) -> Answer:
    return explained(text).answer


def test_a_read_on_an_intel_client_cpu_has_it_as_the_likely_cause_with_its_source():
    answer = answered(DESKTOP + READ)
    assert (answer.cause, answer.sureness) == (None, "likely")
    assert "Ultra 9 285K" in answer.sentence and "open-gpu-kernel-modules/issues/1253" in answer.sentence
    assert "the other host" in answer.sentence and "look at the other host" in answer.now[0]
    assert [one.code for one in answer.others] == ["acs-redirect", "iommu-translating"]


def test_a_write_reads_the_memory_of_its_own_host():
    assert "if the other host" not in answered(DESKTOP + WRITE.format(4)).sentence
    assert "Ultra 9 285K" in answered(DESKTOP + WRITE.format(4)).sentence


@pytest.mark.parametrize(
    "text",
    [
        CPU.format("Intel(R) Xeon(R) Platinum 8480C") + READ,
        CPU.format("Intel(R) Core(TM) i9-10980XE CPU @ 3.00GHz") + READ,
        CPU.format("AMD Ryzen Threadripper PRO 7975WX 32-Cores") + READ,
        DESKTOP + WRITE.format(10),  # the peer's NIC was to write
        READ,
    ],
)
def test_other_cpus_and_writes_leave_the_causes_and_name_the_other_host(text: str):
    answer = answered(text)
    assert (answer.cause, answer.sureness) == ("acs-redirect", "possible")
    assert (
        "the peer's NIC is not allowed to access its GPU's memory. So look at the other host"
        in answer.now[0]
    )


def test_a_run_with_host_memory_is_about_no_gpu():
    text = "$ ib_read_bw -d mlx5_0 10.10.10.11\n Failed status 10: wr_id 0 syndrom 0x89\n"
    assert "285K" not in answered(DESKTOP + text).sentence
