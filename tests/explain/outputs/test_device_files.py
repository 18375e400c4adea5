"""Device files of a container, beside the devices that sysfs and NCCL list."""

from __future__ import annotations

import pytest

from gdrkit.explain.explain import explain
from gdrkit.explain.explanation import Answer, Explanation
from gdrkit.explain.outputs.pasted_host import PastedHost

PROMPT = "root@trainer-7c9d:/workspace# "
DEVICES = f"{PROMPT}ls /sys/class/infiniband\nmlx5_0  mlx5_1  mlx5_2  mlx5_3\n"
FILES = PROMPT + "ls /dev/infiniband\n{}\n"
USING = "trainer-7c9d:88:120 [0] NCCL INFO NET/IB : Using {} [RO]; OOB eth0:10.244.3.17<0>\n"
NO_FILE = "rdma-device-not-in-container"


def explained(text: str) -> Explanation:
    return explain(PastedHost(text))


def answered(text: str) -> Answer:
    return explained(text).answer


def facts(text: str) -> dict[str, str]:
    return {fact.name: fact.value for machine in explained(text).machines for fact in machine.known}


@pytest.mark.parametrize(
    "text",
    [
        FILES.format("uverbs0") + DEVICES,
        FILES.format("total 0\ncrw-rw-rw- 1 root root 231, 192 Nov 12 08:11 uverbs0") + DEVICES,
        f"{PROMPT}ls /sys/class/infiniband /dev/infiniband\n/dev/infiniband:\nrdma_cm  uverbs0\n\n"
        "/sys/class/infiniband:\nmlx5_0  mlx5_1  mlx5_2  mlx5_3\n",
        f"{FILES.format('uverbs0')}{PROMPT}ls /sys/class/infiniband\n"
        "roceP2p1s0f0  roceP2p1s0f1  rocep1s0f0  rocep1s0f1\n",
    ],
    ids=["names", "rows", "two folders", "a domain of PCIe in names"],
)
def test_devices_without_a_file_are_counted_with_the_file_that_is_there(text: str):
    answer = answered(text)
    seen = [line.note for machine in explained(text).machines for line in machine.open]

    assert (answer.cause, "uverbs0" in answer.lines[0].text) == (NO_FILE, True)
    assert "4 devices, but 1 of their uverbs files, uverbs0" in seen


@pytest.mark.parametrize(
    "text",
    [
        FILES.format("rdma_cm  uverbs0  uverbs1  uverbs2  uverbs3") + DEVICES,
        FILES.format("uverbs0"),  # how many devices there are is not shown
        DEVICES,
    ],
)
def test_without_both_lists_or_with_a_file_each_nothing_is_missing(text: str):
    assert answered(text).cause != NO_FILE


def test_nccl_that_lists_fewer_devices_leaves_three_causes():
    answer = answered(USING.format("[0]mlx5_0:1/IB") + DEVICES)
    assert answer.cause is None
    assert [other.code for other in answer.others] == ["port-down", NO_FILE, "hca-not-selected"]


@pytest.mark.parametrize(
    "log",
    [
        USING.format("[0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/RoCE"),
        "trainer-7c9d:88:120 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n" + USING.format("[0]mlx5_0:1/IB"),
    ],
    ids=["all", "as it was told"],
)
def test_nccl_that_lists_what_it_was_told_to_lacks_none(log: str):
    assert not {other.code for other in answered(log + DEVICES).others} & {"port-down", NO_FILE}


def test_the_files_of_other_programs_are_named_where_a_whole_listing_lacks_them():
    assert facts(FILES.format("uverbs0"))["device files"].startswith("uverbs0; no umad or issm, no rdma_cm")
    assert "no umad" not in facts(FILES.format("rdma_cm  umad0  uverbs0")).get("device files", "")
    assert "device files" not in facts(PROMPT + "ls /dev/infiniband | head -1\nuverbs0\n")
