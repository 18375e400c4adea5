"""Links that lspci calls downgraded, and NICs that a job names and that are not there."""

from __future__ import annotations

import pytest

from gdrkit.explain.text import text as as_text
from tests.explain.explaining import explained

LINK = (
    "$ lspci -vvv -s 41:00.0\n41:00.0 {}\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported"
    "\n\t\tLnkSta:\tSpeed {}, Width {}\n"
)
NIC = "Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]"
GPU = "3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)"


EITHER = ["link-narrower-than-port", "link-degraded"]
PORT = "00:01.0 PCI bridge: Intel Corporation Device 460d\n\tBus: primary=00, secondary=41, subordinate=41\n"
ABOVE = (
    f"{PORT}\t\tLnkCap:\tPort #2, Speed 32GT/s, Width x16\n"
    "\t\tLnkSta:\tSpeed 32GT/s, Width x8 (downgraded)\n"
)
ENDS = "\t\tLnkCap:\tPort #2, Speed {}GT/s, Width x{}\n\t\tLnkSta:\tSpeed {}, Width {}\n"


@pytest.mark.parametrize(
    ("device", "speed", "width", "seen"),
    [
        (NIC, "8GT/s (downgraded)", "x8 (downgraded)", "8 of 32 GT/s and x8 of x16"),
        (NIC, "32GT/s", "x8 (downgraded)", "x8 of x16"),
        (GPU, "32GT/s", "x8 (downgraded)", "x8 of x16"),
        (NIC, "32GT/s", "x16", ""),
        (NIC, "32GT/s (ok)", "x16 (ok)", ""),  # pciutils before 3.8
    ],
)
def test_one_end_of_a_link_leaves_the_slot_and_both_prove_it(device: str, speed: str, width: str, seen: str):
    card = LINK.format(device, speed, width)
    found = explained(card)
    cause = "link-degraded" if seen and device == GPU else None  # no code is about a slot of a GPU
    others = EITHER if seen and device == NIC else []
    assert (found.answer.cause, found.answer.sureness, found.exit_code) == (cause, "possible", 3)
    assert [one.code for one in found.answer.others] == others
    if seen:
        note = found.machines[0].open[0].note
        assert note.startswith(f"the link of 41:00.0 runs at {seen}; what the other end")
        both = explained(f"{ABOVE}{card.partition(chr(10))[2]}")
        assert (both.answer.sureness, both.exit_code) == ("certain", 1)


def test_a_degraded_link_leads_where_an_integrated_gpu_is_all_else_that_is_proven():
    listed = "$ nvidia-smi -L\nGPU 0: NVIDIA GB10 (UUID: GPU-2b2c1d0e-1234-5678-9abc-0123456789ab)\n"
    card = LINK.format(NIC, "32GT/s", "x8 (downgraded)")
    for text in (f"{card}{listed}", f"{ABOVE}{card.partition(chr(10))[2]}{listed}"):
        found = explained(text)
        assert "link-degraded" in (found.answer.cause, *(one.code for one in found.answer.others))
        assert "Also proven\n  The GPU is integrated" in as_text(found)


@pytest.mark.parametrize(
    ("above", "below", "seen"),
    [
        (ENDS.format(64, 16, "32GT/s (downgraded)", "x16 (ok)"), ENDS.format(32, 16, "32GT/s", "x16"), []),
        (ENDS.format(32, 8, "32GT/s", "x8"), ENDS.format(32, 16, "32GT/s", "x8 (downgraded)"), []),
        (
            ENDS.format(64, 8, "32GT/s (downgraded)", "x8"),
            ENDS.format(32, 16, "32GT/s", "x8 (downgraded)"),
            [],
        ),
        (
            ENDS.format(32, 16, "32GT/s", "x8 (downgraded)"),
            ENDS.format(32, 16, "32GT/s", "x8 (downgraded)"),
            ["the link of 00:01.0 runs at x8 of x16"],
        ),
        (ENDS.format(64, 16, "32GT/s (downgraded)", "x16 (ok)"), "", []),  # the card below is not shown
    ],
    ids=["older-card", "narrow-slot", "both", "degraded", "bridge-alone"],
)
def test_a_link_can_do_what_the_weaker_of_its_ends_can(above: str, below: str, seen: list[str]):
    found = explained(f"{PORT}{above}{f'41:00.0 {NIC}' if below else ''}\n{below}")
    assert [one.seen for machine in found.machines for one in machine.established] == seen


CAN = "LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported"
NARROW = "LnkSta: Speed 32GT/s, Width x8 (downgraded)"
SLOW = "LnkSta: Speed 16GT/s (downgraded), Width x16"


@pytest.mark.parametrize(
    ("line", "causes"),
    [
        (f"0000:41:00.0   {CAN} {NARROW}", EITHER),
        (f"41:00.0 {CAN} {NARROW}", EITHER),
        (f"41:00.0: {CAN} {NARROW}", EITHER),
        (f"41:00.0\t{NARROW}", EITHER),  # not what it can be
        (f"41:00.0 {NIC} Subsystem: X {CAN} LnkCtl: ASPM {NARROW} TrErr- x", EITHER),
        (f"41:00.0 {NIC} {CAN} {SLOW}", EITHER),
        (f"41:00.0 {GPU} {CAN} {SLOW}", []),  # an idle GPU lowers its speed
        (f"41:00.0 {CAN} {SLOW}", []),  # which device it is, the line does not say
        (f"41:00.0 {CAN} LnkSta: Speed 32GT/s, Width x16", []),
    ],
)
def test_fields_that_a_loop_prints_on_one_line_are_read_as_below_their_device(line: str, causes: list[str]):
    found = explained(f"{line}\n").answer

    assert (found.cause, [one.code for one in found.others]) == (None, causes)


def test_the_whole_line_is_quoted_of_fields_on_one_line():
    (quoted, *_) = explained(f"41:00.0 {NIC} {CAN} {NARROW}\n").answer.lines
    assert (quoted.line, "LnkSta" in quoted.text) == (1, True)


def test_what_a_device_does_not_support_is_no_failure():
    lines = explained(LINK.format(NIC, "32GT/s", "x16")).answer.lines

    assert not [line for line in lines if "not supported" in line.text]


DEVICES = (
    "{}$ ibv_devices\n    device          \tnode GUID\n    ------          \t----------------\n"
    "    roceP3p1s0      \ta088c20300aabbcc\n"
)
NONE = "g2:12:30 [0] NCCL INFO NET/IB : No device found.\n"
SET = "$ export NCCL_IB_HCA={}\n"


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("mlx5_0", "hca-not-selected"),
        ("=mlx5_0,mlx5_1:1", "hca-not-selected"),
        ("roceP3", None),  # a prefix
        ("=roceP3p1s0:1", None),
        ("=roceP3p1s", "hca-not-selected"),  # a whole name after =, of which this is a part
        ("mlx5_0,roceP3p1s0", None),
        ("^mlx5_0", None),  # leaves out
    ],
)
def test_a_nic_that_a_job_names_and_that_is_not_there_is_why_none_is_found(value: str, cause: str | None):
    assert explained(DEVICES.format(SET.format(value)) + NONE).answer.cause == cause


def test_the_name_that_nccl_prints_counts_like_one_that_is_set():
    line = "g2:12:30 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n"
    assert explained(DEVICES.format("") + line + NONE).answer.cause == "hca-not-selected"


def test_without_a_list_of_devices_or_where_one_is_found_nothing_is_decided():
    assert explained(SET.format("mlx5_0") + NONE).answer.cause is None
    assert explained(DEVICES.format(SET.format("mlx5_0"))).answer.cause is None


def test_a_product_line_is_proven_by_the_line_that_lists_the_card():
    """The rule looks for its name in the kernel's log as well, where it is not."""
    log = "$ sudo dmesg | tail -1\n[  412.118833] Loading of module with unavailable key is rejected\n"
    cards = "".join(
        f"0{bus}:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [GeForce RTX 4090]"
        " [10de:2684] (rev a1)\n"
        for bus in (1, 2)
    )
    (machine,) = explained(f"{log}$ lspci -nn\n{cards}").machines
    proofs = {one.subject: one.proofs[0].line for one in machine.established if one.code == "gpu-consumer"}
    assert proofs == {"0000:01:00.0": 4, "0000:02:00.0": 5}
