"""A rate that one of the two RDMA devices of a Spark's cable carries."""

from __future__ import annotations

import pytest

from gdrkit.cli.explained import with_rates
from gdrkit.explain.explain import explain
from gdrkit.explain.explanation import Answer, AnswerKind
from gdrkit.explain.outputs.pasted_host import PastedHost
from tests.cli.test_pasted_rates import LINK, RULER, RUN, SPEED

SUM = "[SUM]   0.00-10.00  sec   127 GBytes   {} Gbits/sec                  receiver\n"
PORTS = (
    "$ ibdev2netdev\nroceP2p1s0f0 port 1 ==> enP2p1s0f0np0 (Up)\n"
    "roceP2p1s0f1 port 1 ==> enP2p1s0f1np1 (Down)\n"
    "rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)\nrocep1s0f1 port 1 ==> enp1s0f1np1 (Down)\n"
)
IBSTAT = "$ ibstat rocep1s0f1\nCA 'rocep1s0f1'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 100\n"


def answered(text: str) -> Answer:
    pasted = PastedHost(text)
    return with_rates(explain(pasted), pasted).answer


def perftest(rate: str, device: str = "rocep1s0f1", size: int = 65536) -> str:
    return RUN.format(device=device, rate=rate, ruler=RULER, size=size)


@pytest.mark.parametrize(
    "text",
    [
        perftest("97.28"),  # dgx-spark-playbooks, performance_benchmarking_guide.md
        perftest("111.71", "roceP2p1s0f1"),  # eugr/spark-vllm-docker, docs/NETWORKING.md
        perftest("108.10") + LINK.format("0000:01:00.1"),
        f"I have two DGX Sparks and one cable.\n\n{SUM.format(109)}",
        f"{PORTS}$ iperf3 -c 192.168.100.11 -P 8\n{SUM.format(96.2)}",
    ],
)
def test_it_is_said_to_be_half_with_the_rate_of_both(text: str):
    answer = answered(text)
    assert answer.kind == AnswerKind.SEVERAL
    assert "half of a cable" in answer.sentence and "carry 178 to 196 Gb/s" in answer.sentence
    assert "roceP2p1s0f" in answer.now[0] and "rocep1s0f" in answer.now[0]


RANK = "#  Rank  {0} Group  0 Pid {0}7 on spark-{0} device  0 [000f:01:00] {1}\n"
TIMES = "      -1   191408    5.61    {rate}       0   190310    5.64    {rate}       0\n"
COLUMNS = "     time   algbw   busbw  #wrong" * 2
TABLE = (
    "# Collective test starting: all_gather_perf\n{ranks}"
    f"#       size         count      type   redop    root{COLUMNS}\n"
    f"  1073741824     134217728     float    none{TIMES}"
)


def nccl_tests(rate: str, product: str = "NVIDIA GB10") -> str:
    return TABLE.format(ranks="".join(RANK.format(rank, product) for rank in (0, 1)), rate=rate)


def test_a_run_of_nccl_tests_at_the_rate_of_one_device_is_half():
    found = answered(nccl_tests("11.96"))  # dgx-spark-playbooks, issue 102: one device in NCCL_IB_HCA
    assert "half of a cable" in found.sentence and "NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0" in found.now[0]


@pytest.mark.parametrize(
    "text", [nccl_tests("2.83"), nccl_tests("22.1"), nccl_tests("11.96", "NVIDIA H100 80GB HBM3")]
)
def test_other_rates_and_gpus_of_nccl_tests_are_not(text: str):
    assert "half of a cable" not in answered(text).sentence


def test_a_machine_is_a_spark_by_its_own_name():
    run = f"~$ iperf3 -c 10.0.0.2 -P 16\n{SUM.format(96.2)}"
    assert "half of a cable" in answered(f"nvidia@spark-1afa:{run}").sentence
    assert "half of a cable" not in answered(f"nvidia@node-1afa:{run}").sentence


def test_ports_of_one_cable_are_as_they_should_be():
    one_half = PORTS.replace(
        "roceP2p1s0f0 port 1 ==> enP2p1s0f0np0 (Up)", "roceP2p1s0f0 port 1 ==> enP2p1s0f0np0 (Down)"
    )
    assert answered(PORTS).kind == AnswerKind.NO_PROBLEM and "one cable" in answered(PORTS).sentence
    assert answered(one_half).kind == AnswerKind.SEVERAL
    assert answered(PORTS.replace("roce", "mlx5_")).kind == AnswerKind.SEVERAL


def test_both_devices_of_the_port_in_use_are_named():
    assert "NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1" in answered(perftest("108.9")).now[0]


@pytest.mark.parametrize(
    "text",
    [
        perftest("108.9", "mlx5_0"),
        perftest("13.23"),  # far below one device
        perftest("185.00"),  # more than one device can carry
        perftest("108.9", size=4096),
        SUM.format(109),  # of a machine that nothing names
        f"Two DGX Sparks:\n\n{SUM.format(9.4)}",  # its other NIC, of 10 Gbit/s
        "$ ibstat rocep1s0f1\nCA 'rocep1s0f1'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 100\n"
        + perftest("97.3"),
    ],
)
def test_other_rates_and_ports_and_machines_are_not(text: str):
    assert "half of a cable" not in answered(text).sentence


GB10 = "$ nvidia-smi -L\nGPU 0: NVIDIA GB10 (UUID: GPU-9c0e1d2f-1111-2222-3333-444455556666)\n"
TABLE_OF_SMI = (
    "$ nvidia-smi\n"
    "|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |\n"
    "| N/A   38C    P8              4W /  N/A  | Not Supported          |      0%      Default |\n"
)
POWER = (
    "$ sudo dmesg\n[    5.2] mlx5_core 0000:01:00.0: mlx5_pcie_event:299:(pid 321): Detected insufficient"
    " power on the PCIe slot (27W).\n"
)
BRIEF = (
    "$ ip -br a\nenP7s7           UP             192.168.1.40/24\nenp1s0f1np1      UP    192.168.100.10/24\n"
)


@pytest.mark.parametrize("beside", [SPEED.format("enp1s0f1np1"), GB10, TABLE_OF_SMI, POWER, BRIEF, PORTS])
@pytest.mark.parametrize("prompt", ["$ ", "nvidia@spark-1afa:~$ ", "➜  ~ ", ""])
def test_other_programs_and_any_prompt_beside_it_hide_nothing(beside: str, prompt: str):
    run = perftest("109.03").replace("$ ", prompt, 1)
    for text in (run + beside.replace("$ ", prompt, 1), beside.replace("$ ", prompt, 1) + run):
        assert "half of a cable" in answered(text).sentence


def test_a_port_of_half_the_rate_is_whole_by_ethtool_as_well():
    slow = SPEED.format("enp1s0f1np1").replace("200000", "100000")
    assert "half of a cable" not in answered(perftest("97.3") + slow).sentence


def test_an_error_beside_it_comes_first():
    stub = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
    assert (
        answered(f"{GB10}$ modprobe nvidia-peermem\n{stub}" + perftest("109.03")).cause == "gpu-integrated"
    )


BRIEF_LINK = (
    "$ ip -br link\nenP7s7        UP    4c:bb:47:2c:00:01 <BROADCAST,MULTICAST,UP,LOWER_UP>\n"
    "enp1s0f0np0   UP    4c:bb:47:2c:00:02 <BROADCAST,MULTICAST,UP,LOWER_UP>\n"
    "enp1s0f1np1   DOWN  4c:bb:47:2c:00:03 <NO-CARRIER,BROADCAST,MULTICAST,UP>\n"
    "enP2p1s0f0np0 UP    4c:bb:47:2c:00:04 <BROADCAST,MULTICAST,UP,LOWER_UP>\n"
    "enP2p1s0f1np1 DOWN  4c:bb:47:2c:00:05 <NO-CARRIER,BROADCAST,MULTICAST,UP>\n"
)
RDMA_LINK = (
    "$ rdma link\nlink roceP2p1s0f0/1 state ACTIVE physical_state LINK_UP netdev enP2p1s0f0np0\n"
    "link roceP2p1s0f1/1 state DOWN physical_state DISABLED netdev enP2p1s0f1np1\n"
    "link rocep1s0f0/1 state ACTIVE physical_state LINK_UP netdev enp1s0f0np0\n"
)


@pytest.mark.parametrize("text", [PORTS, BRIEF_LINK, RDMA_LINK])
def test_ports_of_one_cable_give_the_names_that_nccl_needs(text: str):
    """Those of NVIDIA/dgx-spark-playbooks, nccl: the interface that begins with enp1, not enP2p1."""
    _, devices, interface = answered(text).now
    assert devices.startswith("- `NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0`")
    assert interface.startswith("- `NCCL_SOCKET_IFNAME=enp1s0f0np0`")


@pytest.mark.parametrize("text", [PORTS, BRIEF_LINK, RDMA_LINK])
def test_ports_of_which_one_half_is_down_or_that_are_no_sparks_give_none(text: str):
    half = [line for line in text.splitlines(keepends=True) if "P2p1s0f0" not in line]
    for other in ("".join(half), text.replace("p1s0", "p129s0")):
        assert not any("NCCL_SOCKET_IFNAME" in step for step in answered(other).now)
