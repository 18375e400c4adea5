"""What is true of links and switch ports follows from the machine, not from what was planted."""

from __future__ import annotations

import random

import pytest
from machines.cases import with_faults
from machines.faults import BY_NAME
from machines.truth import judge


def planted(*names: str):
    return with_faults(5, 0, random.Random(names[0]), tuple(BY_NAME[name] for name in names))


@pytest.mark.parametrize(
    ("fault", "code"), [("lost lanes", "link-degraded"), ("redirecting switch port", "acs-redirect")]
)
def test_a_fault_of_a_link_is_true_of_the_machine_itself(fault, code):
    made = planted(fault)

    assert code not in judge(made.healthy).codes
    assert code in judge(made.machine).codes


def test_a_card_in_a_small_slot_has_lost_no_lanes():
    made = planted("NIC at the other socket", "small slot")

    assert len(made.faults) == 2
    assert "link-narrower-than-port" in made.truth.codes
    assert "link-degraded" not in made.truth.codes


def test_a_port_that_redirects_does_not_matter_to_a_nic_elsewhere():
    made = planted("NIC at another root port")
    gpu = made.machine.gpus[0]
    made.machine.at(gpu.above).acs = ("SV", "RR", "CR", "UF")

    assert "acs-redirect" not in judge(made.machine).codes
