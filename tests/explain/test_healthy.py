"""What a text shows to be in use, where nothing fails."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained
from tests.jobs.samples import info

REGISTERED = "efa: Acquired peer memory using P2P\n"
ACCEPTED = "NIXL INFO Using provider with FI_HMEM support for rail 0\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [(REGISTERED + ACCEPTED, 1), (ACCEPTED + REGISTERED, 2), (ACCEPTED * 2 + REGISTERED, 3)],
)
def test_a_line_that_proves_the_path_is_quoted_before_one_that_only_names_it(text: str, line: int):
    answer = explained(text).answer

    assert (answer.kind, [one.line for one in answer.lines]) == ("working", [line])


def test_a_line_that_only_names_a_part_proves_nothing():
    answer = explained(ACCEPTED).answer

    assert (answer.kind, answer.lines) == ("nothing", ())


def test_a_far_gpu_in_a_matrix_is_no_failure_where_all_channels_are_direct():
    matrix = (
        "\tGPU0\tGPU1\tNIC0\tNIC8\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tNV18\tSYS\tPIX\t0-79\t0\t\tN/A\n"
        "GPU1\tNV18\t X \tSYS\tNODE\t0-79\t0\t\tN/A\n"
        "NIC0\tSYS\tSYS\t X \tSYS\n"
    )
    line = "w1:1:2 [0] NCCL INFO Channel 0{}/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/7{}\n"
    direct = line.format(1, "/GDRDMA") + line.format(3, "/GDRDMA")
    assert explained(direct + matrix).answer.kind == "no-problem", "rank 8 prints nothing"
    assert explained(matrix).answer.others[0].code == "pair-distant"


def test_that_dmabuf_is_not_used_is_no_failure_of_an_efa():
    line = "w1:1:2 [0] NCCL INFO NET/OFI Support for DMA-BUF registrations: false\n"
    found = explained(line).answer
    assert (found.kind, found.others[0].code) == ("several", "ofi-dmabuf-off-by-default")
    assert found.sentence.startswith("The text shows no failure")


HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
ROW = "     1048576        262144     float     sum      -1    85.1   12.32   23.10      0\n"
CHANNEL = "w1:1:2 [0] NCCL INFO Channel 00/0 : 4[0] -> 0[0] [receive] via NET/IB/0{}\n"
MATRIX = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-79\nNIC0\tPIX\t X \n"


def test_a_table_without_a_row_is_no_all_clear_beside_a_healthy_matrix():
    found = explained(MATRIX + CHANNEL.format("/GDRDMA") + HEADER).answer

    assert (found.kind, found.cause) == ("several", None)
    assert [one.code for one in found.others] == ["acs-redirect", "iommu-translating"]


def test_a_table_without_a_row_has_no_cause_where_no_channel_is_direct():
    found = explained(MATRIX + HEADER).answer
    assert (found.kind, found.others) == ("nothing", ())
    assert [(one.line, one.text) for one in found.lines] == [(4, HEADER.strip())]


def test_a_table_with_a_row_is_a_result():
    assert explained(MATRIX + CHANNEL.format("/GDRDMA") + HEADER + ROW).answer.kind == "no-problem"
    receive = CHANNEL.replace("4[", "1[")
    send = receive.replace("w1", "w2").replace("receive", "send")
    whole = (receive + send).format("/GDRDMA", "/GDRDMA")
    assert explained(MATRIX + whole + HEADER + ROW).answer.kind == "working", "the near miss: both ends"
    assert explained(MATRIX + HEADER + ROW).answer.kind == "no-problem"


PERFTEST = (
    "$ ./ib_write_bw {} -d bnxt_re0 10.0.0.2\n                    RDMA_Write BW Test\n"
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    " 1048576    280644           0.00               391.97             0.046726\n"
)


@pytest.mark.parametrize(
    ("option", "maker"), [("--use_rocm=0 --use_rocm_dmabuf", "AMD"), ("--use_hl=0", "Intel")]
)
def test_a_run_from_the_memory_of_another_maker_s_accelerator_is_not_one_from_host_memory(
    option: str, maker: str
):
    found = explained("AMD Instinct MI300X, Gaudi\n" * (maker == "AMD") + PERFTEST.format(option)).answer

    assert found.kind == "working"
    assert f"from the memory of an accelerator of {maker}" in found.sentence
    assert "host memory" not in found.sentence


def test_that_amd_s_driver_finds_no_peer_memory_api_is_about_the_rdma_stack():
    line = (
        "[    5.118533] amdgpu: Cannot initialize PeerDirect, 'ib_register_peer_memory_client' not found\n"
    )
    found = explained(f"kfd kfd: added device 1002:738c, ROCm\n{line}").answer

    assert (found.cause, found.sureness) == ("rdma-lacks-peer-api", "likely")


RANKS = "".join(
    f"#  Rank  {rank} Group  0 Pid  {1300 + rank} on  {host} device  0 [000f:01:00] {{gpu}}\n"
    for rank, host in enumerate(("left", "right"))
)
RESULT = "  {size} 268435456     float    none      -1   1000.0   {busbw}  {busbw}      0\n"


def _run(busbw: float, gpu: str = "NVIDIA GB10", size: int = 1 << 30, more: str = "") -> str:
    return RANKS.format(gpu=gpu) + HEADER + RESULT.format(size=size, busbw=busbw) + more


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (_run(3.04), "several", "a low rate, of which the GPU is not the cause"),
        (_run(21.7), "several", "less than the 21.9 GB/s that NVIDIA's test of two DGX Sparks asks for"),
        (_run(21.9), "no-problem", "not less than the 21.9 GB/s"),
        (_run(3.04, size=1 << 20), "no-problem", "not whether the rate is good"),  # latency limits it
        (_run(3.04, gpu="NVIDIA H200"), "no-problem", "not whether the rate is good"),
    ],
)
def test_a_rate_on_an_integrated_gpu_is_compared_with_what_such_machines_reach(
    text: str, kind: str, words: str
):
    found = explained(text).answer
    assert (found.kind, found.cause) == (kind, None)
    assert words in found.sentence and "gdr estimate --measured" in found.now[0]


def test_a_rate_is_not_the_answer_where_a_line_fails():
    failed = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
    assert explained(failed + _run(3.04)).answer.cause == "gpu-integrated"


LISTED = "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-02cd)\nGPU 1: {} (UUID: GPU-02ce)\n"
ROW_OF_SMI = (
    "|   0  NVIDIA GeForce RTX 4090        Off |   00000000:4B:00.0 Off |                  Off |\n"
    "|   1  NVIDIA RTX 6000 Ada Gene...    Off |   00000000:4C:00.0 Off |                  Off |\n"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LISTED.format("NVIDIA RTX 6000 Ada Generation"), "of product lines that NVIDIA supports: GPU 1"),
        (ROW_OF_SMI, "of product lines that NVIDIA supports: 0000:4c:00.0"),
        (LISTED.format("NVIDIA Graphics Device"), "not known to be supported: GPU 1"),
    ],
)
def test_of_a_list_of_unlike_gpus_the_answer_says_which_can(text: str, words: str):
    found = explained(text)
    assert (found.answer.kind, found.exit_code) == ("no-problem", 3)
    assert words in found.answer.sentence
    assert "peermem" not in " ".join(found.answer.now) and "Spark" not in " ".join(found.answer.now)


def test_a_gpu_that_lacks_one_path_is_not_said_to_lack_both():
    old = "GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-1)\nGPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-2)\n"
    assert "neither direct path" not in explained(old).answer.sentence


def test_a_module_that_is_not_loaded_is_no_gpu():
    found = explained("$ lsmod | grep peermem\n$\n").answer
    assert found.kind == "several" and "is not loaded" in found.sentence


def test_a_list_of_geforce_alone_is_a_cause():
    assert explained(LISTED.format("NVIDIA GeForce RTX 4090")).answer.cause == "gpu-consumer"


PODS = (
    "$ kubectl get pods -A\n"
    "NAMESPACE      NAME                                        READY   STATUS      RESTARTS   AGE\n"
    "gpu-operator   nvidia-cuda-validator-9bzxn                 0/1     Completed   0          6d2h\n"
    "gpu-operator   nvidia-driver-daemonset-q6t4m               {}\n"
    "network        mofed-ubuntu22.04-6b7f9d8c5d-ds-hx4wq       1/1     Running     0          6d2h\n"
)
NODE = "Allocatable:\n  nvidia.com/gpu:             8\n  {}\n"


def test_pods_that_all_run_are_no_problem_and_show_no_job():
    found = explained(PODS.format("2/2     Running     0          6d2h")).answer
    assert found.kind == "no-problem" and "3 pods of NVIDIA's operators, all of which run" in found.sentence
    assert "does not show whether a job uses" in found.sentence and "gdr nccl" in found.now[0]


@pytest.mark.parametrize(
    "text",
    [
        PODS.format("1/2     Running     0          6d2h"),
        PODS.format("0/2     Init:0/1    0          6d2h"),
        PODS.format("2/2     Running     0          6d2h")
        + "$ kubectl get nicclusterpolicy\nNAME                 STATUS     AGE\n"
        "nic-cluster-policy   notReady   6d2h\n",
    ],
)
def test_a_pod_or_policy_that_is_not_ready_is_not_healthy(text: str):
    assert explained(text).answer.kind != "no-problem"


def test_a_node_that_offers_gpus_and_rdma_is_no_problem():
    assert (
        "rdma/hca_shared_devices_a 1k"
        in explained(NODE.format("rdma/hca_shared_devices_a:  1k")).answer.sentence
    )


@pytest.mark.parametrize("resource", ["pods:  110", "rdma/hca_shared_devices_a:  0"])
def test_a_node_without_rdma_is_not_called_healthy(resource: str):
    assert explained(NODE.format(resource)).answer.kind != "no-problem"


@pytest.mark.parametrize("result", [HEADER + RESULT.format(size=1 << 33, busbw=2.0), ""])
def test_a_direct_path_may_be_slow_all_the_same(result: str):
    """2 GB/s over NICs of 400 Gbit/s: the channels are direct, and do not show the rate."""
    start = "ncclCommInitRank comm 0x5 rank {0} nranks 2 cudaDev 0 busId 1b000 commId 0x9 - Init START"
    leg = "Channel 00/0 : 0[0] -> 1[0] [{}] via NET/IB/0/GDRDMA"
    log = info("gpu01:7", 0, start.format(0), leg.format("send"))
    log += info("gpu02:8", 0, start.format(1), leg.format("receive"))
    found = explained(log + result).answer

    assert found.kind == "working"
    assert found.sentence.startswith(
        "The text shows no failure, but not whether the rate is good."
        if result
        else "The text shows no problem"
    )
    assert ("nccl-tests measured 2 GB/s" in found.sentence) is bool(result)
    assert bool(found.now) is bool(result)
