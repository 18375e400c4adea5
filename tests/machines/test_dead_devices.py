"""A device that reads as ones is gone; one whose id alone does is a virtual function that works."""

from __future__ import annotations

import random

import pytest
from machines.cases import with_faults
from machines.compose import compose
from machines.faults import BY_NAME
from machines.pci import folder
from machines.truth import judge


def planted(name: str):
    return with_faults(5, 0, random.Random(name), (BY_NAME[name],))


@pytest.mark.parametrize("fault", ["GPU off the bus", "NIC that does not answer"])
def test_a_dead_device_blocks_and_is_the_cause(fault):
    made = planted(fault)

    assert judge(made.healthy).states["nccl"] == {"ready"}
    assert judge(made.machine).states["nccl"] == {"blocked"}
    assert judge(made.machine).headline == {"device-not-answering"}


def test_functions_without_an_id_of_their_own_change_nothing():
    made = planted("GPU off the bus")
    for nic in made.healthy.nics:
        nic.own_id = False

    assert judge(made.healthy).states["nccl"] == {"ready"}
    assert "device-not-answering" not in judge(made.healthy).codes


def test_the_evidence_has_ones_for_the_dead_device_alone():
    machine = planted("GPU off the bus").machine
    files = compose(machine).files
    spaces = {one.address: files[f"{folder(machine, one)}/config"] for one in (*machine.gpus, *machine.nics)}

    assert [address for address, space in spaces.items() if set(space) == {0xFF}] == [
        gpu.address for gpu in machine.gpus if not gpu.answers
    ]
    assert all(spaces[nic.address][:4] == b"\xff" * 4 for nic in machine.nics)
