"""GPU memory that cannot be given to a NIC, on a GPU that could."""

from __future__ import annotations

from gdrkit.agent.native.cuda_abi import DEVICE_ATTRIBUTES, POINTER_RDMA_CAPABLE
from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.gpu import cuda_attributes
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.probe import ProbeCall, cuda_calls, memory_calls
from gdrkit.facts.third_party import CLASS, REFUSALS, third_party
from gdrkit.node import Node, each_known, if_missing
from gdrkit.rules.deciding_command import CUDA_PROBE, DecidingCommand
from gdrkit.rules.rule import (
    ADDRESS,
    DMABUF,
    REGISTRATION,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    Status,
    rule,
)

WITH_CUDA_VMM_SUPPORTED = DEVICE_ATTRIBUTES["GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED"]


@rule(
    "memory-not-registrable",
    Layer.RDMA,
    per=gpus,
    takes=REGISTRATION,
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand(CUDA_PROBE, "plain cudaMalloc memory goes through: then it is the kind of memory"),
    ),
    cost="This kind of memory is copied through host memory, or the program fails.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def memory_not_registrable(node: Node, gpu: PciGpu) -> Outcome:
    """A piece of GPU memory cannot be registered, although the GPU supports it.

    Cost: That memory does not go the direct way.

    How to tell: A probe allocated memory, and `cuMemGetHandleForAddressRange` gave no dma-buf for it, or
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE is 0. Or attribute 110
    (GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) is 0, which concerns memory of cuMemCreate alone. Or the kernel
    module itself refuses NV50_THIRD_PARTY_P2P, the object that nvidia-peermem's path stands on.

    What to do: CudaMalloc; or gpuDirectRDMACapable in CUmemAllocationProp. Ask per pointer before
    registering.

    Why: Only pinned device memory can be given away. Managed memory (cudaMallocManaged) and host memory
    cannot. Memory of cuMemCreate, which PyTorch's expandable segments use, can if it was made with
    gpuDirectRDMACapable = 1. A mapping is of whole pages of 64 KiB. The kernel module refuses with
    NOT_SUPPORTED (0x56) where the GPU's memory is protected, and with INVALID_CLASS (0x22) where it knows no
    such object.

    Source: cuda.h; open-gpu-kernel-modules src/nvidia/src/kernel/gpu/bus/third_party_p2p.c.
    """
    records = each_known(lambda ask: ask(node), (cuda_calls, memory_calls))
    calls = [c for record in records for c in record if c.subject == gpu.address]
    for c in calls:
        if c.call == "cuPointerGetAttribute" and c.argument == str(POINTER_RDMA_CAPABLE) and c.value == 0:
            return Failed(
                seen="CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 0", expected="1", subject=gpu.address
            )
    refused = _of_kernel(node, gpu)
    exports = [c.result for c in calls if c.call == "cuMemGetHandleForAddressRange" and _of_device(c)]
    if refused is not None and not (exports and 0 not in exports):
        return refused
    if exports and 0 not in exports:
        return Failed(
            seen=f"cuMemGetHandleForAddressRange: CUDA error {exports[0]}",
            expected="a dma-buf",
            subject=gpu.address,
            takes=(DMABUF,) if refused is None else REGISTRATION,
        )
    return _of_virtual_memory(node, gpu, tried=bool(exports))


def _of_device(call: ProbeCall) -> bool:
    """Whether the export was one of the GPU's own memory in the plain way. Mapped over PCIe, and of host
    memory, it may fail on GPUs that do everything else."""
    return call.argument not in ("device pcie", "host plain")


def _of_kernel(node: Node, gpu: PciGpu) -> Failed | None:
    """What the kernel module says, asked without CUDA. Its consent alone proves nothing of the product."""
    answer = if_missing(None, third_party, node, gpu.address)
    if answer is None or answer.status not in REFUSALS:
        return None
    return Failed(
        seen=f"{CLASS} {answer.kind}: {answer.word}",
        expected="OK (0x0)",
        subject=gpu.address,
        takes=(ADDRESS,),
    )


def _of_virtual_memory(node: Node, gpu: PciGpu, tried: bool) -> Outcome:
    """Memory of cuMemCreate, which has an attribute of its own. It stops no path: other memory is let in."""
    try:
        virtual = cuda_attributes(node, gpu.address).get(WITH_CUDA_VMM_SUPPORTED)
    except EvidenceMissing:
        return NotApplicable("nobody tried it here")
    if virtual == 0:
        return Failed(
            seen="CUDA attribute 110 (GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) is 0",
            expected="1, for memory of cuMemCreate",
            subject=gpu.address,
            takes=(),
        )
    return Passed("a piece of memory became a dma-buf" if tried else "memory of cuMemCreate can be used")
