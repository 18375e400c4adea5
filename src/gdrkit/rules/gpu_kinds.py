"""Kinds of GPUs that no setting changes: integrated, consumer, before Turing."""

from __future__ import annotations

from gdrkit.facts.gpu import is_before_turing, is_consumer, is_integrated
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.node import Node
from gdrkit.rules.deciding_command import NVIDIA_SMI, DecidingCommand
from gdrkit.rules.gpu_support import refused
from gdrkit.rules.rule import DMABUF, REGISTRATION, Layer, Outcome, Passed, rule


@rule(
    "gpu-integrated",
    Layer.HARDWARE,
    per=gpus,
    takes=REGISTRATION,
    permanent=REGISTRATION,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`Product Name: NVIDIA GB10`, or a frame buffer of N/A"),),
    cost="No NIC can read or write what cudaMalloc gives; data passes through host memory.",
    references=("https://docs.nvidia.com/dgx/dgx-spark-porting-guide/porting/cuda.html",),
)
def gpu_integrated(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU has no memory of its own.

    Cost: Peermem, dma-buf and GDRCopy do not work and never will. NCCL copies through host memory.

    How to tell: The PCI id of a GB10 (10de:2e12), or CUDA attributes 18 (INTEGRATED) = 1 and 116
    (GPU_DIRECT_RDMA_SUPPORTED) = 0. `nvidia-smi -q` prints the frame buffer's size as N/A. Addressing mode
    ATS is no sign of it: GH200 and GB200 have it, too, and are supported.

    What to do: None, and none is needed: signing or rebuilding nvidia-peermem changes its error and nothing
    else. Programs of your own allocate with cudaHostAlloc and register that with ibv_reg_mr: GPU and NIC
    then use the same memory without a copy. perftest's --use_cuda allocates host memory on such a GPU, so
    that a run which succeeds proves nothing.

    Why: CPU and GPU of a DGX Spark and its relatives share one memory. What cudaMalloc returns on them may
    not be reached coherently by PCI Express devices, so there is nothing that a NIC could be given.

    Source: NVIDIA, DGX Spark Porting Guide, CUDA; open-gpu-kernel-modules README.md for the id; perftest
    src/cuda_memory.c.
    """
    failed = refused(node, gpu, "gpu-integrated", "a GPU with memory of its own")
    if failed is not None:
        return failed
    if is_integrated(node, gpu):
        return Passed("it shares the CPU's memory, and CUDA says that it can")
    return Passed("it has memory of its own")


@rule(
    "gpu-consumer",
    Layer.HARDWARE,
    per=gpus,
    takes=REGISTRATION,
    permanent=REGISTRATION,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`Product Name` with GeForce or TITAN"),),
    cost="Registering GPU memory fails with EFAULT; data passes through host memory.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def gpu_consumer(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU is a GeForce or a TITAN, which NVIDIA does not support for GPUDirect RDMA.

    Cost: Peermem and dma-buf do not work; NCCL and UCX copy through host memory.

    How to tell: The product's name, its PCI id, or CUDA attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) = 0.
    `ibv_reg_mr` answers EFAULT ("Bad address", error 14), perftest `Couldn't allocate MR with error=14`,
    nvidia-fs `Error ret -22 invoking nvidia_p2p_get_pages`.

    What to do: None that NVIDIA supports. Patches of the CUDA library exist; they are not ours to
    recommend. A patched library that says yes is believed, because a probe outranks a name.

    Why: A policy of the product line. NVIDIA's CUDA library does not create the object through which the
    kernel driver finds a process's memory (NV50_THIRD_PARTY_P2P); the kernel driver itself has no such test.

    Source: NVIDIA, GPUDirect RDMA guide, supported systems; open-gpu-kernel-modules
    kernel-open/nvidia/nv-p2p.c and src/nvidia/src/kernel/gpu/bus/third_party_p2p.c.
    """
    failed = refused(node, gpu, "gpu-consumer", "a data centre, Quadro or RTX professional GPU")
    if failed is not None:
        return failed
    if is_consumer(node, gpu):
        return Passed("CUDA says that it can, whatever its name")
    return Passed("not a GeForce or TITAN")


@rule(
    "gpu-before-turing",
    Layer.HARDWARE,
    per=gpus,
    takes=(DMABUF,),
    permanent=(DMABUF,),
    reported_by=(DecidingCommand(NVIDIA_SMI, "`Product Architecture`: Volta, Pascal or older"),),
    cost="Only nvidia-peermem can be used, which needs an RDMA stack with the peer-memory API.",
    references=("https://github.com/NVIDIA/open-gpu-kernel-modules#compatible-gpus",),
)
def gpu_before_turing(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU is a Volta or older, and cannot use dma-buf.

    Cost: nvidia-peermem remains the only direct path.

    How to tell: A PCI id below that of the first Turing, or a compute capability below 7.5.

    What to do: None for dma-buf. Use nvidia-peermem with DOCA-OFED or a kernel that has the peer-memory API.

    Why: Only NVIDIA's open kernel module exports GPU memory as dma-buf, and it drives Turing and newer.

    Source: open-gpu-kernel-modules README.md; NVIDIA GPU Operator documentation, GPUDirect RDMA, table of
    requirements.
    """
    failed = refused(node, gpu, "gpu-before-turing", "a GPU of Turing or newer")
    if failed is not None:
        return failed
    if is_before_turing(node, gpu):
        return Passed("older than Turing, and refused for another reason")
    return Passed("Turing or newer")
