"""GPU memory that cannot be registered, on a GPU that supports registration."""

from __future__ import annotations

from gdrkit.agent.native.cuda_abi import POINTER_RDMA_CAPABLE
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.probe import ProbeCall, cuda_calls, memory_calls
from gdrkit.facts.third_party import CLASS, REFUSALS, third_party
from gdrkit.node import Node, each_known, if_missing
from gdrkit.rules.capabilities import GPU_MEMORY
from gdrkit.rules.deciding_command import CUDA_PROBE, DecidingCommand
from gdrkit.rules.rule import (
    ADDRESS,
    DMABUF,
    PINNING,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    Status,
    rule,
)


@rule(
    "memory-not-registrable",
    Layer.RDMA,
    per=gpus,
    takes=GPU_MEMORY,
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand(
            CUDA_PROBE, "memory from plain cudaMalloc can be registered, so the kind of memory is the cause"
        ),
    ),
    cost="Such memory is copied through host memory, or the program fails.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def memory_not_registrable(node: Node, gpu: PciGpu) -> Outcome:
    """A piece of GPU memory cannot be registered, although the GPU supports it.

    Cost: That memory cannot use the direct path.

    How to tell: `gdr probe memory` allocates memory, and `cuMemGetHandleForAddressRange` returns no dma-buf
    for it, or CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE is 0. Or, in `gdr probe rm`, the kernel
    module itself refuses NV50_THIRD_PARTY_P2P, the object that nvidia-peermem's path needs.

    What to do: Allocate with cudaMalloc, or set gpuDirectRDMACapable in CUmemAllocationProp. In your own
    programs, query each pointer before you register it.

    Why: Only pinned device memory can be registered. Unified memory (managed, from cudaMallocManaged) and
    host memory cannot. Memory from cuMemCreate, which PyTorch's expandable segments use, can if it was
    created with gpuDirectRDMACapable = 1. A mapping consists of whole pages of 64 KiB. The kernel
    module refuses with NOT_SUPPORTED (0x56) where the GPU's memory is protected, and with INVALID_CLASS
    (0x22) where it does not know the object.

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
            takes=(DMABUF,) if refused is None else (DMABUF, ADDRESS, PINNING),
        )
    return Passed("memory was exported as a dma-buf") if exports else NotApplicable("no probe tried it")


def _of_device(call: ProbeCall) -> bool:
    """Whether the export was a plain one of the GPU's own memory. Exports mapped over PCIe, or of host
    memory, may fail on GPUs that support everything else."""
    return call.argument not in ("device pcie", "host plain")


def _of_kernel(node: Node, gpu: PciGpu) -> Failed | None:
    """The failure if the kernel module refuses, asked without CUDA. If it agrees, that alone does not prove
    support."""
    answer = if_missing(None, third_party, node, gpu.address)
    if answer is None or answer.status not in REFUSALS:
        return None
    return Failed(
        seen=f"{CLASS} {answer.kind}: {answer.word}",
        expected="OK (0x0)",
        subject=gpu.address,
        takes=(ADDRESS, PINNING),
    )
