"""The GPU as a product: does CUDA let a NIC access its memory?"""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.gpu import gpu_support
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.node import Node
from gdrkit.rules.capabilities import DIRECT, GPU_MEMORY
from gdrkit.rules.deciding_command import CUDA_PROBE, DecidingCommand
from gdrkit.rules.gpu_support import missing_for_certainty, refused
from gdrkit.rules.rule import Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "gpu-unsupported",
    Layer.HARDWARE,
    per=gpus,
    takes=GPU_MEMORY,
    reported_by=(DecidingCommand(CUDA_PROBE, "attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) = 0"),),
    cost="Registering GPU memory fails; data goes through host memory.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def gpu_unsupported(node: Node, gpu: PciGpu) -> Outcome:
    """CUDA does not let a NIC access this GPU's memory, for a reason that has no page of its own.

    Cost: Programs that ask CUDA first do not use the path that it refuses.

    How to tell: `gdr probe cuda` reports attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) = 0, which stops both
    direct paths, or attribute 124 (DMA_BUF_SUPPORTED) = 0, which stops dma-buf alone. NCCL asks exactly
    these two.

    Without a probe the answer is at best likely: a table of data centre, Quadro and RTX professional boards
    says yes; about other GPUs nothing is known. `gdr doctor --probe` asks CUDA.

    What to do: For attribute 124, use the open kernel module and a driver with CUDA 11.7 or newer. For
    attribute 116 of a product that is supported elsewhere, check the driver's version and the GPU's state
    (MIG, confidential computing, vGPU). If neither applies, nothing helps.

    Why: The product is not supported, or the instance type is not: EC2's g6e has an L40S and EFA, and no
    GPUDirect between them. Or attribute 124 is 0 because the proprietary kernel module is loaded, CUDA is
    older than 11.7, or the kernel has no dma-buf.

    Source: cuda.h, CUdevice_attribute; NCCL src/init.cc and src/plugin/net.cc; facts/gpu_ids.py names the
    table's sources; aws-ofi-nccl, issue 547, for g6e.
    """
    failed = refused(node, gpu, "gpu-unsupported", "CUDA attributes 116 and 124 = 1")
    if failed is not None:
        return failed
    supports = [gpu_support(node, gpu, path) for path in DIRECT]
    unknown = next((s for s in supports if s.state == "unknown" and s.code == "gpu-unsupported"), None)
    if unknown is not None:
        raise EvidenceMissing(unknown.lacking[0])
    allowed = next((s for s in supports if s.state == "yes"), None)
    if allowed is None:
        return NotApplicable(supports[0].why)
    return Passed(allowed.why, lacking=missing_for_certainty(node, gpu))
