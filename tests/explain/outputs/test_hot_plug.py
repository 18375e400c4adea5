"""A cable of a DGX Spark that is pulled out or moved: the kernel's log of it is one event."""

from __future__ import annotations

import pytest

from gdrkit.explain.explanation import Explanation
from tests.explain.explaining import explained

REMOVAL, PLUGIN = (
    f"[ 15{number}.497688] cx7-pcie-hotplug MTKP0001:00: Cable {what}\n"
    for number, what in ((40, "removal"), (43, "plugin"))
)
FATAL = (
    "[ {}.2] pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:01:00.0\n"
)
UNPLUGGED = "[ 1547.570192] mlx5_core 0000:01:00.1: Port module event: module 1, Cable unplugged\n"
UP = "[ 1548.722684] mlx5_core 0000:01:00.0 enp1s0f0np0: Link up\n"
POWER = (
    "[ 1548.264665] mlx5_core 0000:01:00.0: mlx5_pcie_event:326:(pid 23507): Detected insufficient power on"
    " the PCIe slot (27W).\n"
)


def sentence(found: Explanation) -> str:
    return found.answer.sentence


@pytest.mark.parametrize(
    "log",
    [
        REMOVAL + FATAL.format(1541) + PLUGIN + FATAL.format(1545) + UNPLUGGED + UP,
        REMOVAL + PLUGIN + UNPLUGGED + POWER + UP,
        PLUGIN + UP,
    ],
)
def test_removal_and_return_are_one_event_and_the_next_step_is_a_restart(log: str):
    found = explained(log)
    assert sentence(found).startswith("A cable was moved:")
    assert found.answer.now[0].startswith("Restart both Sparks") and found.answer.others == ()


def test_without_a_cable_no_nic_is_missing():
    """The output of a Spark whose cable is pulled: graham33/nixos-dgx-spark, issue 165."""
    found = explained(f"$ ibv_devinfo\nNo IB devices found\n$ sudo dmesg | grep cx7\n{REMOVAL}")
    assert sentence(found).startswith("The kernel sees no cable at this DGX Spark")
    assert found.answer.now[0].startswith("Plug a cable in") and found.answer.others == ()


def test_an_error_after_the_link_is_back_is_one_of_its_own():
    found = explained(REMOVAL + PLUGIN + UP + FATAL.format(1900))
    assert "uncorrectable error" in sentence(found)


@pytest.mark.parametrize("log", [UNPLUGGED, "$ ibv_devinfo\nNo IB devices found\n"])
def test_on_other_machines_nothing_changes(log: str):
    found = explained(log).answer
    assert found.cause == "port-down" or len(found.others) == 2


def test_little_power_at_the_slot_is_named_and_no_failure_on_a_spark():
    found = explained(POWER).answer
    assert "prints this also where it carries its full rate" in found.sentence
    assert found.now[0].startswith("On a DGX Spark nothing")
