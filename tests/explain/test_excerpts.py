"""Excerpts of outputs that name no machine, no GPU or no time of their own."""

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.facts.packages import installed
from gdrkit.node import Node
from tests.explain.explaining import explained

BAR1 = """    BAR1 Memory Usage
        Total                             : {} MiB
        Used                              : 13 MiB
        Free                              : 243 MiB
"""


@pytest.mark.parametrize(("size", "cause"), [(256, "bar1-small"), (131072, None)])
def test_a_block_of_bar1_alone_shows_its_size(size, cause):
    assert explained(f"```\n{BAR1.format(size)}```\n").answer.cause == cause


def test_blocks_of_two_gpus_name_neither():
    assert explained(f"```\n{BAR1.format(256)}{BAR1.format(32768)}```\n").answer.cause is None


@pytest.mark.parametrize("stamp", ["19:14:02  ", "[19:14:02.115] ", "19:14:02,3 "])
def test_a_time_of_day_before_a_line_is_not_part_of_it(stamp):
    text = f"{stamp}NVRM: Xid 79, GPU has fallen off the bus.\n"

    assert explained(text).answer.cause == "device-not-answering"


def test_a_time_of_day_before_a_sentence_keeps_it_a_sentence():
    assert {line.kind for line in PastedHost("19:14:02 then the job stopped\n").lines} == {"prose"}


DPKG = """$ dpkg -l
Desired=Unknown/Install/Remove/Purge/Hold
||/ Name           Version        Architecture Description
ii  rdma-core      50.0-2build2   amd64        RDMA core userspace infrastructure
rc  nvidia-dkms-535 535.183.01-0  amd64        NVIDIA DKMS package
$ rpm -qa
bash: rpm: command not found
"""


def test_a_whole_list_of_packages_is_the_list_of_the_machine():
    assert installed(Node(PastedHost(DPKG))).keys() == {"rdma-core"}
    assert installed(Node(PastedHost("$ rpm -qa\nrdma-core-51.0-1.el9.x86_64\n$ true\n"))).keys() == {
        "rdma-core"
    }


@pytest.mark.parametrize(
    "text",
    [
        DPKG.replace("dpkg -l", "dpkg -l | grep rdma"),
        DPKG.replace("dpkg -l", "dpkg -l rdma-core"),
        DPKG[:200],
    ],
)
def test_a_part_of_the_list_does_not_show_what_is_not_installed(text):
    with pytest.raises(EvidenceMissing):
        installed(Node(PastedHost(text)))


# -- benchmarks ----------------------------------------------------------------------------------------

NVBANDWIDTH = """Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     27.21     27.19

SUM device_to_host_memcpy_ce {}
"""
FINAL = (
    "Final:                 {}    1.250   22.110   22.110   45231.10   44870.25       47428       47050\n"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (NVBANDWIDTH.format("54.40"), "54.40 GB/s in all by device_to_host_memcpy_ce"),
        (FINAL.format(1000), "44870.25 MB/s over all iterations"),
    ],
)
def test_a_benchmark_shows_what_it_measured_and_no_problem(text, shown):
    answer = explained(text).answer

    assert (answer.kind, answer.now) == ("no-problem", ())
    assert shown in answer.sentence


@pytest.mark.parametrize("text", [NVBANDWIDTH.format("N/A"), FINAL.replace("44870.25", "")])
def test_a_row_without_its_result_measures_nothing(text):
    assert not any("result" in fact.name for machine in explained(text).machines for fact in machine.known)


FABRIC = "    Fabric\n        State                  : {}\n        Status                 : {}\n"


@pytest.mark.parametrize(
    ("state", "status", "cause"),
    [("In Progress", "N/A", "nvswitch-fabric-down"), ("Completed", "Success", None)],
)
def test_the_state_of_a_fabric_alone_is_that_of_the_only_gpu_and_likely(state, status, cause):
    """Of a GPU with NVLink-C2C, whose name the excerpt lacks, it would be the fabric of several hosts."""
    found = explained(f"```\n{FABRIC.format(state, status)}```\n").answer
    assert found.cause == cause
    assert found.cause is None or found.sureness == "likely"


def test_fabrics_of_two_gpus_name_neither():
    text = f"```\n{FABRIC.format('In Progress', 'N/A')}{FABRIC.format('Completed', 'Success')}```\n"
    assert explained(text).answer.cause is None
