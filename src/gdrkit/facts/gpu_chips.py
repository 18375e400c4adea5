"""The compute capability of a GPU."""

from __future__ import annotations

from gdrkit.evidence import Confidence
from gdrkit.facts.cuda_attributes import MAJOR, MINOR, cuda_attributes
from gdrkit.facts.pci import PciGpu
from gdrkit.facts.supplied import not_collected
from gdrkit.node import Node, fact, if_missing

CHIPS = (  # pci.ids of 2026-08-22: names of the chips; CUDA Programming Guide, Compute Capabilities
    ("2b0", 110),  # GB10B, Jetson Thor
    ("15f", 60),  # GP100
    ("1b", 61),  # GP102, GP104
    ("1c", 61),  # GP106, GP107
    ("1d8", 70),  # GV100
    ("1db", 70),
    ("1df", 70),
    ("1e", 75),  # TU102, TU104
    ("1f", 75),  # TU106, TU117
    ("21", 75),  # TU116
    ("20", 80),  # GA100
    ("22", 86),  # GA102
    ("24", 86),  # GA104
    ("25", 86),  # GA106, GA107
    ("23", 90),  # GH100
    ("26", 89),  # AD102
    ("27", 89),  # AD103, AD104
    ("28", 89),  # AD106, AD107
    ("29", 100),  # GB100, GB102
    ("31", 103),  # GB110
    *((f"30{digit}", 107) for digit in "01234567"),  # GR100: NCCL 2.32.3, release notes
    ("2b", 120),  # GB202
    ("2c", 120),  # GB203
    ("2d", 120),  # GB205, GB206, GB207
    ("2f", 120),  # GB205
    ("2e", 121),  # GB10
)
"""First digits of device ids, which are assigned chip by chip, and the compute capability."""


def by_device_id(device_id: str) -> int | None:
    """The compute capability of a device id, 90 for 9.0; None for an unknown chip."""
    return next((capability for start, capability in CHIPS if device_id.startswith(start)), None)


@fact
def compute_capability(node: Node, gpu: PciGpu) -> int:
    """The compute capability, 90 for 9.0: from CUDA where a probe was run, else by the chip."""
    found = if_missing({}, cuda_attributes, node, gpu.address)
    if MAJOR in found and MINOR in found:
        return 10 * found[MAJOR] + found[MINOR]
    capability = by_device_id(gpu.device_id)
    if capability is not None:
        node.cite(f"chip of 10de:{gpu.device_id}", confidence=Confidence.LIKELY)
        return capability
    raise not_collected(f"compute capability of {gpu.address}", "nvidia-smi --query-gpu=compute_cap")
