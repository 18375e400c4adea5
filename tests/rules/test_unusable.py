"""Which GPUs and NICs no program can use: what the rules of the verdict say, and nothing else."""

from __future__ import annotations

import pytest

from gdrkit.catalogue import every_rule
from gdrkit.evidence import Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import nics
from gdrkit.node import Node
from gdrkit.rules.capabilities import Capability
from gdrkit.rules.driver_not_loaded import driver_not_loaded
from gdrkit.rules.unusable import BY_DRIVER, BY_FILES, OF_NICS, WORDS, unusable_gpu, unusable_nic
from tests.evidence_nodes import laid_down

NOT_LISTED = {"no-gpu", "gpu-missing", "expected-gpu-missing"}
"""About GPUs that the kernel does not list."""


def node(name: str) -> Node:
    return Node(open_host(str(laid_down(name))))


def test_every_rule_that_takes_a_listed_gpu_from_programs_is_asked_and_has_its_words():
    taking = {
        rule.code
        for rule in every_rule()
        if rule.code not in NOT_LISTED and Capability.GPU in rule.takes(PciGpu("0000:01:00.0"))
    }

    assert taking == {rule.code for rule in (*BY_FILES, *BY_DRIVER, driver_not_loaded)}
    assert set(WORDS) == taking | {rule.code for rule in OF_NICS}
    assert all(len(word) <= 9 for word in WORDS.values())


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpu-off-the-bus", [None] * 7 + ["device-not-answering"]),
        ("rail-down", [None] * 8),
        ("hypervisor", ["gpu-passed-through"] * 2),
    ],
)
def test_the_gpus_of_a_node(name, found):
    here = node(name)
    assert [unusable_gpu(here, gpu) for gpu in gpus(here)] == found
    assert not any(unusable_nic(here, nic) for nic in nics(here))


def test_without_the_driver_no_gpu_can_be_used_and_a_dead_one_is_still_called_dead():
    here = node("gpu-off-the-bus").after("unloaded", [is_loaded.becomes(False, DRIVER)])

    assert [unusable_gpu(here, gpu) for gpu in gpus(here)] == [
        *["driver-not-loaded"] * 7,
        "device-not-answering",
    ]


def test_a_driver_that_is_not_known_to_be_there_is_not_known_to_be_missing():
    missing = Missing("proc/modules", MissingReason.NOT_COLLECTED, "cat /proc/modules")
    here = node("rail-down").after("unseen", [is_loaded.becomes(missing, DRIVER)])

    assert not any(unusable_gpu(here, gpu) for gpu in gpus(here))
