"""Memory from cuMemCreate, which a NIC may register only if it was created for that."""

from __future__ import annotations

from gdrkit.agent.native.cuda_abi import DEVICE_ATTRIBUTES
from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.cuda_attributes import ASK_PROBE, cuda_attributes
from gdrkit.facts.gpu import gpu_support
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import VERBS_PROBE, DecidingCommand
from gdrkit.rules.rule import VMM, Failed, Layer, NotApplicable, Outcome, Passed, rule

WITH_CUDA_VMM_SUPPORTED = DEVICE_ATTRIBUTES["GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED"]


@rule(
    "vmm-not-rdma-capable",
    Layer.APPLICATION,
    per=gpus,
    takes=(VMM,),
    reported_by=(DecidingCommand(VERBS_PROBE, "plain memory is registered, so only this kind is refused"),),
    cost="This memory cannot be registered, or is copied through host memory.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def vmm_not_rdma_capable(node: Node, gpu: PciGpu) -> Outcome:
    """Memory from cuMemCreate was not created for RDMA, or the GPU does not support that.

    Cost: Registration fails with EFAULT; symmetric memory and NCCL's GIN are off.

    How to tell: `gdr probe cuda` shows attribute 110 (GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) as 0, or the
    program does not set gpuDirectRDMACapable. Without a probe the answer is at best likely: that of the
    product, as in gpu-unsupported.

    What to do: Set gpuDirectRDMACapable in CUmemAllocationProp, or allocate with cudaMalloc.

    Why: The driver pins such memory for a NIC only if it was asked for when it was created.

    Source: cuda.h, CUmemAllocationProp; deepseek-ai/DeepEP csrc/kernels/backend/symmetric.hpp; NVIDIA/nccl
    src/init.cc, globalCuMemGdrSupport.
    """
    supported = if_missing({}, cuda_attributes, node, gpu.address).get(WITH_CUDA_VMM_SUPPORTED)
    if supported is None:
        return _by_product(node, gpu)
    if supported == 0:
        return Failed(
            seen=f"CUDA attribute {WITH_CUDA_VMM_SUPPORTED} (GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) is 0",
            expected="1",
            subject=gpu.address,
        )
    return Passed("memory from cuMemCreate can be registered")


def _by_product(node: Node, gpu: PciGpu) -> Outcome:
    """As likely as that any memory of this product can be registered. Raises EvidenceMissing for others."""
    product = gpu_support(node, gpu, "peermem")
    missing = Missing(f"cuda-attribute-{WITH_CUDA_VMM_SUPPORTED}", MissingReason.NOT_COLLECTED, ASK_PROBE)
    match product.state:
        case "no":
            return NotApplicable(product.why)
        case "yes":
            return Passed(product.why, lacking=(missing,))
    raise EvidenceMissing(missing)
