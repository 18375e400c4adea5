"""PCIe links in a text: lspci and the kernel look at the device alone; the port above it decides."""

from __future__ import annotations

import pytest

from gdrkit.cli.pasted_links import with_link
from gdrkit.explain.explain import explain
from gdrkit.explain.explanation import AnswerKind, Explanation
from gdrkit.explain.outputs.pasted_host import PastedHost

KERNEL = (
    "[ 10.643346] {} 0000:05:00.0: 31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x4 link"
    " at 0000:00:1c.4 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)\n"
)
PORT = (
    "00:1c.4 PCI bridge: Intel Corporation Device 7ab8 (rev 11) (prog-if 00 [Normal decode])\n"
    "\tBus: primary=00, secondary=05, subordinate=05, sec-latency=0\n"
    "\t\tLnkCap:\tPort #1, Speed {}GT/s, Width x{}, ASPM L1, Exit Latency L1 <16us\n"
    "\t\tLnkSta:\tSpeed 8GT/s, Width x4\n"
)
CARD = (
    "05:00.0 Ethernet controller: {}\n"
    "\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x16, ASPM not supported\n"
    "\t\tLnkSta:\tSpeed 8GT/s, Width x4 (downgraded)\n"
)
MELLANOX = "Mellanox Technologies MT27800 Family [ConnectX-5]"
IBSTAT = (
    "$ ibstat\nCA 'mlx5_0'\n\tCA type: MT4119\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: {}\n"
    "\t\tPhysical state: LinkUp\n\t\tRate: {}\n\t\tLink layer: Ethernet\n"
)
NIC = CARD.format(MELLANOX)
NARROW, DEGRADED = "link-narrower-than-port", "link-degraded"


def linked(text: str) -> Explanation:
    host = PastedHost(text)
    return with_link(explain(host), host)


def causes(found: Explanation) -> list[str]:
    return [code for code in (found.answer.cause, *(one.code for one in found.answer.others)) if code]


@pytest.mark.parametrize(
    ("text", "expected", "words"),
    [
        (KERNEL.format("mlx5_core"), [NARROW, DEGRADED], "either its slot has no more lanes"),
        (KERNEL.format("pci"), [NARROW, DEGRADED], "either its slot has no more lanes"),
        (KERNEL.format("mlx5_core") + PORT.format(8, 4), [NARROW], "0000:00:1c.4, can do no more"),
        (KERNEL.format("mlx5_core") + PORT.format(16, 4), [NARROW], "0000:00:1c.4, can do no more"),
        (KERNEL.format("mlx5_core") + PORT.format(8, 16), [DEGRADED], "carries at most 31.504 Gb/s"),
        (NIC, [NARROW, DEGRADED], "either its slot has no more lanes"),
        (PORT.format(8, 4) + NIC, [NARROW], "the port above it, 00:1c.4, can do no more"),
        (PORT.format(8, 16) + NIC, [DEGRADED], "carries at most 31.504 Gb/s"),
    ],
)
def test_the_port_above_separates_a_slot_from_a_link_that_lost_lanes(
    text: str, expected: list[str], words: str
):
    found = linked(text)
    assert (causes(found), words in found.answer.sentence) == (expected, True)


def test_without_the_port_the_command_that_shows_it_is_named():
    asked = linked(KERNEL.format("mlx5_core")).question
    assert asked is not None
    assert (asked.command, [one.codes for one in asked.answers]) == (
        "sudo lspci -vv -s 0000:00:1c.4",
        [(NARROW,), (DEGRADED,)],
    )


@pytest.mark.parametrize("shown", [KERNEL.format("mlx5_core") + PORT.format(8, 4), PORT.format(8, 4) + NIC])
def test_the_rate_of_the_network_port_decides_whether_a_slot_matters(shown: str):
    faster = linked(shown + IBSTAT.format("Active", 100)).answer
    assert (faster.cause, faster.sureness) == (NARROW, "certain")
    assert "at most 31.504 Gb/s, packet headers included: the port has 100 Gb/s" in faster.sentence
    assert causes(linked(shown + IBSTAT.format("Active", 25))) == []
    assert linked(shown + IBSTAT.format("Down", 100)).answer.cause != NARROW, "its rate means nothing"


def test_a_port_of_another_nic_proves_nothing():
    two = NIC.replace("05:00.0", "06:00.0")
    assert linked(PORT.format(8, 4) + NIC + two + IBSTAT.format("Active", 100)).answer.sureness != "certain"


@pytest.mark.parametrize("other", ["Intel Corporation I210 Gigabit", "Realtek Semiconductor RTL8125"])
def test_a_card_without_rdma_in_a_small_slot_is_no_answer(other: str):
    assert causes(linked(PORT.format(8, 4) + CARD.format(other))) == []


def test_a_gpu_that_is_idle_is_none_with_the_numbers_of_classes_either():
    listed = NIC.replace("Ethernet controller: Mellanox", "3D controller [0302]: NVIDIA Corporation")
    idle = listed.replace("8GT/s, Width x4 (downgraded)", "2.5GT/s (downgraded), Width x16")
    assert causes(linked(idle)) == []


IDLE = (
    "00:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Device 14db (prog-if 00 [Normal decode])\n"
    "{bus}"
    "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1, Exit Latency L1 <64us\n"
    "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width {width}\n"
    "01:00.0 {below}\n"
    "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L0s L1, Exit Latency L0s <512ns, L1 <16us\n"
    "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width {width}\n"
)
BUS = "\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0\n"
A6000 = "VGA compatible controller: NVIDIA Corporation GA102GL [RTX A6000] (rev a1)"


@pytest.mark.parametrize("bus", [BUS, ""], ids=["whole", "grep"])
def test_the_port_above_an_idle_gpu_is_the_end_of_the_same_link(bus: str):
    answer = linked(IDLE.format(bus=bus, below=A6000, width="x16")).answer

    assert answer.kind is AnswerKind.NO_PROBLEM
    assert "has all 16 lanes, and runs at 2.5 of 16 GT/s, as an idle GPU's does" in answer.sentence


@pytest.mark.parametrize(
    ("below", "width"),
    [(A6000, "x4 (downgraded)"), (f"Ethernet controller: {MELLANOX}", "x16")],
    ids=["lanes", "nic"],
)
def test_an_idle_gpu_has_all_its_lanes_and_a_nic_is_never_idle(below: str, width: str):
    answer = linked(IDLE.format(bus=BUS, below=below, width=width)).answer

    assert answer.cause == DEGRADED
