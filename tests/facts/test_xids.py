"""Xid lines: which of them leave a GPU that must be reset."""

from __future__ import annotations

import pytest

from gdrkit.facts.xids import MEANINGS, Recovery, needed, parse

SLOT = "0000:3b:00"


def recovery(*texts: str) -> Recovery | None:
    """What a GPU needs after these Xids."""
    lines = (parse(f"NVRM: Xid (PCI:{SLOT}): {text}", number) for number, text in enumerate(texts, 1))
    found = needed([line for line in lines if line])
    return found[0].recovery if found else None


def seen(*texts: str) -> str:
    """What shows it."""
    lines = (parse(f"NVRM: Xid (PCI:{SLOT}): {text}", number) for number, text in enumerate(texts, 1))
    found = needed([line for line in lines if line])
    return found[0].seen if found else ""


@pytest.mark.parametrize(
    ("text", "slot", "number"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", SLOT, 79),
        ("NVRM: Xid (PCI:0000:3B:00 GPU-I:05): 94, pid=7194, Contained: CE", SLOT, 94),
        ("NVRM: Xid (PCI:0009:01:00 GPU-I:05 GPU-CI:01): 13, Graphics", "0009:01:00", 13),
    ],
)
def test_a_line_names_slot_and_number(text: str, slot: str, number: int):
    found = parse(text, 7)
    assert found is not None
    assert (found.slot, found.number, found.line) == (slot, number, 7)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): many, pid=1",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "app: NVRM: Xid (PCI:0000:3b:00): 79, quoted by a program",
    ],
)
def test_other_lines_are_no_xids(text: str):
    assert parse(text, 1) is None


@pytest.mark.parametrize("number", [48, 62, 64, 95, 119, 120, 140, 143])
def test_an_error_of_the_gpu_needs_a_reset(number: int):
    assert recovery(f"{number}, pid=1, name=x, ...") is Recovery.RESET


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 68, 74, 92, 94])
def test_an_error_of_a_process_needs_nothing(number: int):
    assert number not in MEANINGS
    assert recovery(f"{number}, pid=1, name=x, ...") is None


def test_a_gpu_that_fell_off_the_bus_needs_a_reboot_whatever_follows():
    assert recovery("79, GPU has fallen off the bus.") is Recovery.REBOOT
    assert recovery("79, GPU has fallen off the bus.", "119, Timeout") is Recovery.REBOOT


class TestContainment:
    """The driver prints whether it marked the GPU: RST, and D-RST for a reset once it is drained."""

    @pytest.mark.parametrize(
        ("flags", "need"),
        [
            ("RST: No, D-RST: No", None),
            ("RST: Yes, D-RST: No", Recovery.RESET),
            ("RST: No, D-RST: Yes", Recovery.DRAIN_AND_RESET),
        ],
    )
    @pytest.mark.parametrize("number", [94, 95])
    def test_the_flags_decide_and_not_the_number(self, number: int, flags: str, need: Recovery | None):
        assert recovery(f"{number}, pid=7062, LTC TAG (0x2, 0x1). {flags}") is need

    @pytest.mark.parametrize(
        "between", [(), ("63, Row Remapper: New row marked",), ("45, pid=1", "63, Row")]
    )
    def test_a_double_bit_error_beside_a_contained_one_ends_processes_only(self, between: tuple[str, ...]):
        contained = "94, pid=1, Contained: DRAM (0x0, 0x0). physAddr: 0x00 RST: No, D-RST: No"
        assert recovery("48, DBE", *between, contained) is None
        assert recovery(contained, *between, "48, DBE") is None

    def test_but_not_beside_another_error(self):
        contained = "94, pid=1, Contained: DRAM (0x0, 0x0). physAddr: 0x00 RST: No, D-RST: No"
        assert recovery("48, DBE", "119, Timeout", contained) is Recovery.RESET


class TestChangeOfTheAction:
    CHANGE = "154, GPU recovery action changed from 0x0 (None) to 0x{:x} ({})"

    @pytest.mark.parametrize(
        ("name", "need"),
        [
            ("GPU Reset Required", Recovery.RESET),
            ("PF FLR", Recovery.RESET),
            ("Node Reboot Required", Recovery.REBOOT),
            ("OS Reboot", Recovery.REBOOT),
            ("Drain P2P", Recovery.DRAIN_P2P),
            ("Drain and Reset", Recovery.DRAIN_AND_RESET),
            ("Something That Comes With A Newer Driver", Recovery.RESET),
            ("Recover IMEX Domain", None),
            ("None", None),
        ],
    )
    def test_its_name_is_read(self, name: str, need: Recovery | None):
        assert recovery(self.CHANGE.format(1, name)) is need

    def test_it_outweighs_what_was_before_it_and_nothing_after_it(self):
        none = "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
        assert recovery("119, Timeout", none) is None
        assert recovery(none, "119, Timeout") is Recovery.RESET
        assert recovery("119, Timeout", self.CHANGE.format(2, "Node Reboot Required")) is Recovery.REBOOT

    def test_an_error_that_needs_the_same_says_why(self):
        reset = self.CHANGE.format(1, "GPU Reset Required")
        assert seen("119, Timeout", reset) == "Xid 119, its GSP does not answer"
        assert seen("119, Timeout", self.CHANGE.format(2, "Node Reboot Required")).startswith("Xid 154")
