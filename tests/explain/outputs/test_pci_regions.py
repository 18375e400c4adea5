"""Devices for which the kernel found no address space: whose it is decides what that means."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

REFUSED = "[    9.112345] {}: not enough MMIO resources for SR-IOV\n"
NIC = "[    1.30] pci 0000:41:00.0: [15b3:1021] type 00 class 0x020700 PCIe Endpoint\n"
GPU = "[    1.30] pci 0000:41:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint\n"
BRIDGE = "[    1.30] pci 0000:41:00.0: [8086:352a] type 01 class 0x060400 PCIe Root Port\n"
OLD = (
    "[    1.41] pci 0000:41:00.0: BAR {0}: no space for [mem size 0x02000000 64bit pref]\n"
    "[    1.42] pci 0000:41:00.0: BAR {0}: failed to assign [mem size 0x02000000 64bit pref]\n"
)
"""Linux before 6.9; since then as below, as in the mailing list of linux-pci."""
NEW = (
    "[    1.41] pci 0000:41:00.0: {0} [mem size 0x02000000 64bit pref]: can't assign; no space\n"
    "[    1.42] pci 0000:41:00.0: {0} [mem size 0x02000000 64bit pref]: failed to assign\n"
)
DECIDES_NOTHING = "decides nothing about GPU memory and the network"


def said(text: str) -> str:
    found = explained(text).answer
    assert (found.kind, found.cause) == ("elsewhere", None)
    return " ".join((found.sentence, *found.now))


@pytest.mark.parametrize(
    "text", [REFUSED.format("mlx5_core 0000:b0:00.0"), NIC + NEW.format("VF BAR 0")
             + REFUSED.format("mlx5_core 0000:41:00.0")],
)  # fmt: skip
def test_a_nic_that_gets_no_virtual_functions_lacks_them_alone(text: str):
    answer = said(text)
    assert "no virtual functions" in answer and "not about the NIC itself" in answer
    assert "SR-IOV" in answer and "pci=realloc" in answer and "sriov_numvfs" in answer


@pytest.mark.parametrize("device", ["i915 0000:00:02.0", "ixgbe 0000:04:00.1", "nvidia 0000:17:00.0"])
def test_virtual_functions_of_another_device_are_not_blamed_on_the_path(device: str):
    answer = said(REFUSED.format(device))
    assert device.split()[1] in answer and DECIDES_NOTHING in answer and "NIC 0000" not in answer


@pytest.mark.parametrize("lines", [OLD.format(7), NEW.format("VF BAR 0")])
@pytest.mark.parametrize("device", [NIC, GPU])
def test_virtual_functions_that_nobody_asked_for_concern_no_job(device: str, lines: str):
    answer = said(device + lines)
    assert "virtual functions" in answer and "a job that needs none" in answer


@pytest.mark.parametrize("lines", [OLD.format(0), NEW.format("BAR 0")])
def test_a_bar_of_a_nic_is_why_its_driver_cannot_use_it(lines: str):
    answer = said(NIC + lines)
    assert "cannot use this NIC" in answer and "Above 4G Decoding" in answer


@pytest.mark.parametrize("of_gpu", [GPU, "[ 5.5] nvidia 0000:41:00.0: probe with driver nvidia failed\n"])
def test_a_bar_of_a_gpu_closes_the_window_to_its_memory(of_gpu: str):
    assert "cannot use this GPU" in said(of_gpu + NEW.format("BAR 1"))


def test_what_the_driver_says_of_the_window_has_a_code_and_comes_first():
    found = explained(OLD.format(1) + "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:41:00.0)\n").answer
    assert found.cause == "bar1-small"


@pytest.mark.parametrize("device", ["", BRIDGE, "[ 2.1] xhci_hcd 0000:41:00.0: xHCI Host Controller\n"])
@pytest.mark.parametrize("lines", [OLD.format(0), OLD.format(14), NEW.format("bridge window")])
def test_a_window_of_another_device_is_not_blamed_on_the_path(device: str, lines: str):
    answer = said(device + lines)
    assert DECIDES_NOTHING in answer and "lspci -tv" in answer


def test_ports_are_of_no_use_to_either():
    assert "need none" in said(NIC + NEW.format("bridge window").replace("[mem size", "[io  size"))


@pytest.mark.parametrize(
    ("lines", "assigned"),
    [
        (OLD.format(0), "BAR 0: assigned [mem 0x3000-0x4000]"),
        (NEW.format("BAR 0"), "BAR 0 [mem 0x3]: assigned"),
    ],
)
def test_a_window_that_is_found_at_the_second_attempt_fails_nothing(lines: str, assigned: str):
    """pci=realloc places a window in a pass of its own."""
    assert (
        "cannot use" not in explained(f"{NIC}{lines}[ 1.5] pci 0000:41:00.0: {assigned}\n").answer.sentence
    )


def test_what_fails_for_a_cause_comes_before_a_window_of_another_device():
    refused = "[ 9.1] NVRM: dma-buf attach failed: PCI topology not supported for dma-buf\n"
    assert explained(BRIDGE + NEW.format("bridge window") + refused).answer.cause == "topology-refused"
