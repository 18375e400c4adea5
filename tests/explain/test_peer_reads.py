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


UCX_RETRIES = """\
[gpu127:2330856:0:2330856] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/{link} (synd 0x15 vend 0x81 hw_synd 0/0)
[gpu127:2330856:0:2330856] ib_mlx5_log.c:177  DCI QP 0xd16 wqe[6168]: SEND s-e [rqpn 0x17de{peer}] [va 0x7f9f745cea80 len 5770 lkey 0x15de4]
"""  # noqa: E501 - openucx/ucx issue 9590


def test_the_steps_for_ucx_find_the_peer_by_its_lid_and_name_no_variable_of_nccl():
    now = " ".join(explained(UCX_RETRIES.format(link="IB", peer=" rlid 1037")).answer.now)
    assert "smpquery -C mlx5_0 -P 1 nodedesc 1037" in now and "UCX_NET_DEVICES" in now
    assert "NCCL" not in now and "RoCE" not in now and "vendor error" not in now


def test_on_roce_ucx_names_no_lid():
    now = " ".join(explained(UCX_RETRIES.format(link="RoCE", peer=" rmac 0c:42:a1:00:00:01")).answer.now)
    assert "smpquery" not in now and "ibqueryerrors" not in now and "flow control" in now


def test_a_line_of_nccl_keeps_its_own_steps():
    line = "NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=12 opcode=0 len=0"
    now = " ".join(explained(f"n1:1:2 [0] {line} vendor err 129\n").answer.now)
    assert "NCCL_IB_TIMEOUT" in now and "UCX_NET_DEVICES" not in now
