"""Compute capabilities."""

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.gpu_chips import compute_capability
from gdrkit.facts.pci import PciGpu
from gdrkit.node import Node
from tests.memory_host import MemoryHost


@pytest.mark.parametrize(
    "device, capability",
    [("15f8", 60), ("1db6", 70), ("1eb8", 75), ("20b2", 80), ("2204", 86), ("2684", 89), ("2330", 90),
     ("2901", 100), ("2b85", 120), ("2e12", 121), ("2b00", 110), ("3041", 107)],
)  # fmt: skip
def test_a_chip_has_one_capability_which_is_likely(device, capability):
    node, gpu = Node(MemoryHost()), PciGpu("0000:1b:00.0", device)
    assert compute_capability(node, gpu) == capability
    assert node.confidence(compute_capability, gpu) is Confidence.LIKELY


def test_an_unknown_chip_has_none():
    with pytest.raises(EvidenceMissing):
        compute_capability(Node(MemoryHost()), PciGpu("0000:1b:00.0", "fff0"))
