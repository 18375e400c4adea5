"""GPU memory that cannot be given to a NIC, on a GPU that could. PURE."""

from __future__ import annotations

from gdrkit.evidence import Lacks
from gdrkit.facts.gpu import cuda_attributes
from gdrkit.facts.pci import Gpu, gpus
from gdrkit.facts.probe import cuda_calls
from gdrkit.node import Node
from gdrkit.rules.rule import DIRECT, Failed, Layer, NotApplicable, Outcome, Passed, rule

IS_GPU_DIRECT_RDMA_CAPABLE = "15"  # cuda.h, CUpointer_attribute
WITH_CUDA_VMM_SUPPORTED = 110  # cuda.h, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED


@rule(
    "memory-not-registrable",
    Layer.RDMA,
    per=gpus,
    blocks=DIRECT,
    aside="warning",
    cost="This kind of memory is copied through host memory, or the program fails.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def memory_not_registrable(node: Node, gpu: Gpu) -> Outcome:
    """A piece of GPU memory cannot be registered, although the GPU supports it.

    Seen: a probe allocated memory, and `cuMemGetHandleForAddressRange` gave no dma-buf for it, or
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE is 0. Or attribute 110
    (GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) is 0, which concerns memory of cuMemCreate alone.

    Why: only pinned device memory can be given away. Managed memory (cudaMallocManaged) and host memory
    cannot. Memory of cuMemCreate, which PyTorch's expandable segments use, can if it was made with
    gpuDirectRDMACapable = 1. A mapping is of whole pages of 64 KiB.

    Cost: that memory does not go the direct way.

    Fix: cudaMalloc; or gpuDirectRDMACapable in CUmemAllocationProp. Ask per pointer before registering.

    Source: cuda.h; open-gpu-kernel-modules src/nvidia/src/kernel/gpu/bus/third_party_p2p.c.
    """
    try:
        calls = [c for c in cuda_calls(node) if c.subject == gpu.address]
    except Lacks:
        return NotApplicable("nobody tried it here")
    for c in calls:
        if c.call == "cuPointerGetAttribute" and c.argument == IS_GPU_DIRECT_RDMA_CAPABLE and c.value == 0:
            return Failed(
                seen="CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 0", expected="1", subject=gpu.address
            )
    exports = [c.result for c in calls if c.call == "cuMemGetHandleForAddressRange"]
    if exports and 0 not in exports:
        return Failed(
            seen=f"cuMemGetHandleForAddressRange: CUDA error {exports[0]}",
            expected="a dma-buf",
            subject=gpu.address,
            blocks=("dmabuf",),
        )
    return _of_virtual_memory(node, gpu, tried=bool(exports))


def _of_virtual_memory(node: Node, gpu: Gpu, tried: bool) -> Outcome:
    """Memory of cuMemCreate, which has an attribute of its own. It stops no path: other memory is let in."""
    try:
        virtual = cuda_attributes(node, gpu.address).get(WITH_CUDA_VMM_SUPPORTED)
    except Lacks:
        return NotApplicable("nobody tried it here")
    if virtual == 0:
        return Failed(
            seen="CUDA attribute 110 (GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) is 0",
            expected="1, for memory of cuMemCreate",
            subject=gpu.address,
            blocks=(),
        )
    return Passed("a piece of memory became a dma-buf" if tried else "memory of cuMemCreate can be used")
