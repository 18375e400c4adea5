"""How the kernel lets the IOMMU pass addresses of devices through, and where that does harm."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.kernel import architecture, release, version
from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.facts.pci import gpus
from gdrkit.node import Node, fact, seek

PASSTHROUGH = {"x86_64": "iommu=pt", "aarch64": "iommu.passthrough=1"}
"""By architecture, as `uname -m` prints it. iommu=pt is read on x86 only: Linux
Documentation/admin-guide/kernel-parameters.txt, iommu= and iommu.passthrough=."""

_FIRST_WITH_PASID_BESIDE_IDENTITY = (6, 11)
"""Before it, arm_smmu_write_ctx_desc() fails with E2BIG on such a GPU, and CUDA gets no context:
NVIDIA/nodewright-packages#122, seen on GB300. The other GPUs that share memory with an Arm CPU use the same
path."""


def passthrough_argument(node: Node) -> str:
    """The kernel argument. Raises EvidenceMissing unless the architecture is known as x86 or 64-bit Arm."""
    machine = architecture(node)
    if machine not in PASSTHROUGH:
        source = f"an argument for passthrough on {machine}"
        raise EvidenceMissing(Missing(source, MissingReason.UNDECIDED, "uname -m"))
    return PASSTHROUGH[machine]


@fact
def passthrough_costs_cuda(node: Node) -> bool:
    """Whether no CUDA context could be created with the IOMMU in passthrough mode."""
    if architecture(node) != "aarch64":
        return False
    cite_if_newer(node, "Linux", release(node))
    if version(node) >= _FIRST_WITH_PASID_BESIDE_IDENTITY:
        return False
    return seek(gpus(node), lambda gpu: is_coherent(node, gpu)) is not None
