"""Outputs that are recognised by their form, and what an answer says of them where nothing is wrong."""

from __future__ import annotations

import pytest

from gdrkit.explain.lines.transcript import read
from tests.explain.explaining import explained

TESTS = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid  12345 on      node1 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  22345 on      node2 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1    23456   45.78   45.78      0    23410   45.87   45.87      0
  8589934592    2147483648     float     sum      -1   183456   46.82   46.82      0   183410   46.84   46.84      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 46.3275
"""  # noqa: E501
PERFTEST = """\
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             392.51             392.43 \t\t   0.748499
"""
MATRIX = """\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tPIX\tSYS\t0-55\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPIX\t56-111\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS
NIC1\tSYS\tPIX\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  PIX  = Connection traversing at most a single PCIe bridge

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""
PORT = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n"
OTHERS = {
    "ethtool": "Settings for ens1f0np0:\n\tSpeed: Unknown!\n\tLink detected: no\n",
    "show_gids": "DEV\tPORT\tINDEX\tGID\n---\t----\t-----\t---\nn_gids_found=2\n",
    "sysctl": "vm.nr_hugepages = 0\nkernel.modules_disabled = 0\n",
    "cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.8.0 root=/dev/sda1 ro quiet\n",
    "ulimit": "core file size              (blocks, -c) 0\nopen files                          (-n) 1024\n",
    "dkms": "nvidia/570.133.20, 6.8.0-60-generic, x86_64: installed\n",
    "dpkg": "ii  nvidia-dkms-570-server    570.133.20-0ubuntu1   amd64   NVIDIA DKMS package\n",
    "rpm": "kmod-nvidia-open-dkms-570.133.20-1.el9.noarch\n",
    "nm": "                 U ib_register_peer_memory_client\n0000000000000000 T init_module\n",
    "symvers": "0x0bf8a1f4\tib_register_peer_memory_client\tdrivers/ib_core\tEXPORT_SYMBOL\t\n",
    "fi_info": "provider: efa\n    fabric: efa\n    domain: rdmap16s27-rdm\n",
    "dcgmi": "Successfully ran diagnostic for group.\n+-------+-------+\n| Diagnostic | Result |\n",
    "ucx_perftest": "[thread 0]    12032      0.201    84.562    84.562    11825.62   11825.62  11826\n",
    "kubectl get": "NAME                 STATUS   AGE\nnic-cluster-policy   ready    6d2h\n",
    "kubectl describe node": "Allocatable:\n  nvidia.com/gpu:  8\n  rdma/hca_shared_devices_a:  1k\n",
    "nvbandwidth": "nvbandwidth Version: v0.8\nSUM host_to_device_memcpy_ce 55.26\n",
}


def kinds(text: str) -> set[str]:
    return {line.kind for line in read(text)}


def wrapped(text: str) -> dict[str, str]:
    """A text as people and programs hand it on."""
    lines = text.splitlines()
    times = (f"2026-11-28T10:00:{number % 60:02}.123456789Z " for number in range(len(lines)))
    return {
        "bare": text,
        "quoted": "".join(f"> {line}\n" for line in lines),
        "timed": "".join(f"{time}{line}\n" for time, line in zip(times, lines, strict=True)),
        "cri": "".join(f"2026-11-28T10:00:00.123456789Z stdout F {line}\n" for line in lines),
    }


@pytest.mark.parametrize("name", OTHERS)
def test_an_output_is_recognised_without_its_command(name: str):
    assert kinds(OTHERS[name]) == {"machine"}


IMEX = "Node #0   * 10.0.0.1    * - READY - Version: 580.95.05\nDomain State: DEGRADED\n"


@pytest.mark.parametrize("how", ["cri", "timed"])
def test_two_words_and_a_colon_after_a_time_are_not_of_syslog(how: str):
    assert [line.text for line in read(wrapped(IMEX)[how])] == IMEX.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "The ports are down, and I have no idea why.\n",
        "# How to run it\n",
        "Settings for the second node are the same.\n",
        "I use kernel 6.8 = the one of Ubuntu.\n",
        "provider: we rent these from a cloud\n",
        "Warning: this takes long.\nNormal use is fine.\nCapacity: as planned\n",
    ],
)
def test_words_of_people_are_no_output(text: str):
    assert kinds(text) == {"prose"}


@pytest.mark.parametrize("how", ["bare", "quoted", "timed", "cri"])
@pytest.mark.parametrize(
    ("text", "words", "todo"),
    [
        (TESTS, "nccl-tests measured 46.84 GB/s of bus bandwidth", "gdr estimate --measured"),
        (PERFTEST, "perftest measured 49.05 GB/s at 65536 bytes", "gdr estimate --measured"),
        (MATRIX, "no GPU of this matrix is far from its nearest NIC", "gdr topo"),
        (PORT, "active ports of mlx5_0", ""),
    ],
)
def test_a_healthy_output_shows_no_problem_and_what_it_shows(text: str, words: str, todo: str, how: str):
    found = explained(wrapped(text)[how]).answer
    assert (found.kind, found.cause, found.others) == ("no-problem", None, ())
    assert words in found.sentence
    assert todo in " ".join(found.now)


def test_a_table_that_is_cut_does_not_show_how_many_gpus_took_part():
    whole, cut = explained(TESTS), explained(TESTS.replace("#  Rank  0 Group", "#"))
    assert "2 GPUs on 2 hosts" in whole.answer.sentence
    assert "GPU" not in cut.answer.sentence


def test_a_far_gpu_is_quoted_by_its_row_and_not_by_the_title():
    found = explained(MATRIX.replace("PIX\tSYS\t0-55", "SYS\tSYS\t0-55")).answer
    assert found.kind == "several"
    assert [line.text.split()[0] for line in found.lines] == ["GPU0"]


BROKEN = """\
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|   1  NVIDIA H100 80GB HBM3         ERR! |   00000000:43:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!              N/A /  ERR! |    ERR! /  ERR!        |     ERR!        ERR! |
"""


@pytest.mark.parametrize(
    "text", [BROKEN, "Unable to determine the device handle for GPU0000:43:00.0: Unknown Error\n"]
)
def test_a_gpu_that_does_not_answer_is_what_the_doctor_says_of_it(text: str):
    assert explained(text).answer.cause == "gpu-needs-reset"


def test_a_fan_without_an_answer_is_no_lost_gpu():
    text = BROKEN.replace("ERR! /  ERR!        |     ERR!        ERR! |", "0MiB / 81559MiB | 0% Default |")
    assert explained(text).answer.cause is None


def test_a_driver_without_gpus_has_the_causes_of_that():
    found = explained("$ nvidia-smi\nNo devices were found\n").answer
    assert found.others[0].code == "gpu-refused-by-driver"
    assert explained("The installer says No devices were found in the list of my shop\n").exit_code == 3


@pytest.mark.parametrize(
    "text",
    [
        "Settings for ens1f0np0:\n\tSpeed: Unknown!\n\tLink detected: no\n",
        "".join(f"/sys/class/infiniband/mlx5_{number}/ports/1/state:1: DOWN\n" for number in (0, 1)),
    ],
)
@pytest.mark.parametrize("how", ["bare", "quoted", "timed", "cri"])
def test_ports_without_a_link_are_down_in_any_listing(text: str, how: str):
    assert explained(wrapped(text)[how]).answer.cause == "port-down"
    up = text.replace("DOWN", "ACTIVE").replace("1: A", "4: A").replace("detected: no", "detected: yes")
    assert explained(wrapped(up)[how]).answer.kind == "no-problem"


def test_a_row_of_sysctl_is_the_file_that_the_doctor_reads():
    [machine] = explained("kernel.modules_disabled = 1\nvm.nr_hugepages = 0\n").machines
    assert [found.code for found in machine.notes] == ["modules-disabled"]  # nothing shows that it matters
    assert explained("kernel.modules_disabled = 0\nvm.nr_hugepages = 0\n").answer.cause is None


def test_two_values_of_one_setting_prove_neither():
    assert explained("kernel.modules_disabled = 1\nkernel.modules_disabled = 0\n").answer.cause is None


@pytest.mark.parametrize("name", [*OTHERS, "tests", "perftest", "matrix"])
def test_no_line_of_a_healthy_output_is_quoted_as_what_fails(name: str):
    texts = {**OTHERS, "tests": TESTS, "perftest": PERFTEST, "matrix": MATRIX}
    for text in wrapped(texts[name]).values():
        found = explained(text).answer
        assert found.kind != "nothing" or found.lines == ()


P2P = (
    " \tGPU0\tGPU1\t\n GPU0\tX\t{0}\t\n GPU1\t{0}\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
    + (
        "  CNS  = Chipset not supported\n  GNS  = GPU not supported\n  TNS  = Topology not supported\n"
        "  NS   = Not supported\n  DR   = Disabled by regkey\n  U    = Unknown\n"
    )
)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("GNS", "does not support these GPUs"),
        ("NS", "names no reason"),
        ("CNS", "the chipset"),
        ("TNS", "their place"),
        ("DR", "a setting of the driver"),
    ],
)
def test_a_pair_without_peer_to_peer_is_explained_and_the_legend_says_nothing(status: str, words: str):
    found = explained(P2P.format(status)).answer
    assert (found.kind, found.lines[0].line) == ("elsewhere", 2)
    assert words in found.sentence and "nothing about the NICs" in found.sentence


CONSUMER = "GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-7f0ad5cd-4d1c-2d5f-8f2f-0a5b6d7c8e9f)\n"
FAR_NIC = "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNODE\t0-31\t0\nNIC0\tNODE\t X \n"


@pytest.mark.parametrize("matrices", [P2P.format("CNS"), FAR_NIC, FAR_NIC + P2P.format("GNS")])
def test_what_a_geforce_lacks_in_every_slot_comes_before_how_far_its_neighbours_are(matrices: str):
    """As two 5090s of noonghunna/club-3090 issue 1130 print it, on a board without a PCIe switch."""
    found = explained(CONSUMER + matrices).answer

    assert (found.kind, found.cause) == ("cause", "gpu-consumer")
    assert not any("slot" in step or "switch" in step for step in found.now)


def test_people_who_name_a_geforce_read_of_it_before_they_read_of_a_distance():
    found = explained(f"My workstation has two RTX 5090 and a ConnectX-6.\n{FAR_NIC}").answer

    assert (found.kind, found.claimed) == ("several", True) and "GeForce" in found.sentence


def test_the_distance_of_a_gpu_for_data_centres_stays_the_question():
    listed = CONSUMER.replace("GeForce RTX 5090", "H100 PCIe")
    for text in (listed + FAR_NIC + P2P.format("CNS"), f"Two H100 and a ConnectX-7.\n{FAR_NIC}"):
        assert explained(text).answer.sentence.startswith("The text shows GPUs that are far from their NIC")


def test_pairs_with_peer_to_peer_and_a_legend_alone_fail_at_nothing():
    assert explained(P2P.format("OK")).answer.lines == ()
    assert explained(P2P.partition("Legend")[2]).answer.lines == ()


@pytest.mark.parametrize(
    "stamp", ["Nov 15 14:15:47", "11\u6708 15 14:15:47", "nov. 15 14:15:47", "M\u00e4r 15 14:15:47"]
)
def test_the_journal_names_its_machine_in_any_language(stamp: str):
    line = f"{stamp} n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    found = explained(line)
    assert (found.answer.cause, found.machines[0].name) == ("gpu-needs-reset", "n7")


def test_a_number_and_a_time_in_a_sentence_are_no_journal():
    assert {one.kind for one in read("On Nov 15 14:15:47 n7 stopped: the GPU was gone.\n")} == {"prose"}


GLOG = "E0108 10:38:38.120482 1479096 {}.cpp:796] {}\n"


def test_a_line_of_glog_is_output_whatever_it_says():
    assert {one.kind for one in read(GLOG.format("rdma_context", "it stops here"))} == {"machine"}
    assert {one.kind for one in read("E0108 is the code of our rack, 796] they said.\n")} == {"prose"}
