"""The GPU as a product: does CUDA let a NIC at its memory?"""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.gpu import capability
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.node import Node
from gdrkit.rules.deciding_command import CUDA_PROBE, DecidingCommand
from gdrkit.rules.gpu_support import missing_for_certainty, refused
from gdrkit.rules.rule import DIRECT, REGISTRATION, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "gpu-unsupported",
    Layer.HARDWARE,
    per=gpus,
    takes=REGISTRATION,
    reported_by=(DecidingCommand(CUDA_PROBE, "attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) = 0"),),
    cost="Registering GPU memory fails; data passes through host memory.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def gpu_unsupported(node: Node, gpu: PciGpu) -> Outcome:
    """CUDA does not let a NIC at this GPU's memory, for no reason that has a page of its own.

    Cost: The path that CUDA refuses is not used by any program that asks first.

    How to tell: CUDA attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) = 0, which stops both direct paths, or
    attribute 124 (DMA_BUF_SUPPORTED) = 0, which stops dma-buf alone. NCCL asks just these two.

    What to do: For attribute 124, the open kernel module and a driver of CUDA 11.7 or newer. For attribute
    116 of a product that is supported elsewhere, the driver's version and the GPU's state (MIG,
    confidential computing, vGPU). Otherwise none.

    Without a probe the answer is at best likely: a table of data centre, Quadro and RTX professional boards
    says yes; of a GPU that is not in the table nothing is known. `gdr doctor --probe` asks CUDA.

    Why: The product is not supported, or attribute 124 is 0 because the proprietary kernel module is loaded,
    CUDA is older than 11.7, or the kernel has no dma-buf.

    Source: cuda.h, CUdevice_attribute; NCCL src/init.cc and src/plugin/net.cc; the table's sources stand in
    facts/gpu_ids.py.
    """
    failed = refused(node, gpu, "gpu-unsupported", "CUDA attributes 116 and 124 = 1")
    if failed is not None:
        return failed
    supports = [capability(node, gpu, path) for path in DIRECT]
    unknown = next((s for s in supports if s.state == "unknown" and s.code == "gpu-unsupported"), None)
    if unknown is not None:
        raise EvidenceMissing(unknown.lacking[0])
    allowed = next((s for s in supports if s.state == "yes"), None)
    if allowed is None:
        return NotApplicable(supports[0].why)
    return Passed(allowed.why, lacking=missing_for_certainty(node, gpu))
