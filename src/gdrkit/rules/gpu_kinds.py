"""Kinds of GPUs that no setting changes: integrated, consumer, older than Turing."""

from __future__ import annotations

from msgspec.structs import replace

from gdrkit.facts.gpu import is_before_turing, is_consumer, is_integrated
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.node import Node, if_missing
from gdrkit.rules.capabilities import GPU_MEMORY
from gdrkit.rules.deciding_command import NVIDIA_SMI, DecidingCommand
from gdrkit.rules.driver_modified import driver_modified
from gdrkit.rules.gpu_support import refused
from gdrkit.rules.rule import DMABUF, Failed, Layer, Outcome, Passed, rule


@rule(
    "gpu-integrated",
    Layer.HARDWARE,
    per=gpus,
    takes=GPU_MEMORY,
    permanent=GPU_MEMORY,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`Product Name: NVIDIA GB10`, or a frame buffer of N/A"),),
    cost="No NIC can read or write memory from cudaMalloc; data goes through host memory.",
    references=("https://docs.nvidia.com/dgx/dgx-spark-porting-guide/porting/cuda.html",),
)
def gpu_integrated(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU is integrated: it has no memory of its own.

    Cost: peermem, dma-buf and GDRCopy do not work and never will. NCCL copies through host memory.

    How to tell: `lspci -nn` shows a GB10 (10de:2e12). Or `gdr probe cuda` reports the attributes 18
    (INTEGRATED) = 1 and 116 (GPU_DIRECT_RDMA_SUPPORTED) = 0. `nvidia-smi -q` prints the frame buffer's size
    as N/A. Addressing mode ATS is not a sign of it: GH200 and GB200 have it too, and are supported.

    What to do: Nothing: GPU memory is host memory on this machine, and the NIC reaches all but what
    cudaMalloc gives. For speed: use both RDMA devices of a cable, MTU 9000 on both nodes, and buffers from
    cudaHostAlloc, which need no copy. `gdr estimate` shows the ceilings. Register such buffers with
    ibv_reg_mr; NCCL makes one copy by itself. Signing or rebuilding nvidia-peermem changes only its error.
    Do not rely on perftest: its --use_cuda allocates host memory on such a GPU, so a run that succeeds
    proves nothing.

    Why: CPU and GPU of a DGX Spark and its relatives share one memory. On them, PCI Express devices cannot
    access memory from cudaMalloc coherently, so a NIC cannot use that memory. RoCE packets of 4096 bytes
    need an Ethernet MTU above that; `gdr codes MTU` prints how to set it.

    Source: NVIDIA, DGX Spark Porting Guide, CUDA; open-gpu-kernel-modules README.md for the id; perftest
    src/cuda_memory.c; Linux include/rdma/ib_addr.h, iboe_get_mtu().
    """
    failed = refused(node, gpu, "gpu-integrated", "a GPU with memory of its own")
    if failed is not None:
        return failed
    if is_integrated(node, gpu):
        return Passed("it shares the CPU's memory, but CUDA reports support")
    return Passed("it has memory of its own")


_MODIFIED = (
    "NVIDIA does not support it. This driver is modified, which alone does not open the way to a NIC: stock "
    "programs still ask NVIDIA's CUDA library, which refuses. With a modified library, or in a program that "
    "does without it, GPU memory may be registered, as only a run shows. "
    "`gdr estimate` says what this machine's links and ports allow through host memory."
)


def _is_modified(node: Node) -> bool:
    """Whether the driver is not one of NVIDIA's releases, as those that people patch for such GPUs."""
    return isinstance(if_missing(None, driver_modified.check, node, "node"), Failed)


@rule(
    "gpu-consumer",
    Layer.HARDWARE,
    per=gpus,
    takes=GPU_MEMORY,
    permanent=GPU_MEMORY,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`Product Name` with GeForce or TITAN"),),
    cost="Registering GPU memory fails with EFAULT; data goes through host memory.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/",),
)
def gpu_consumer(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU is a GeForce or a TITAN, which NVIDIA does not support for GPUDirect RDMA.

    Cost: peermem and dma-buf do not work; NCCL and UCX copy through host memory.

    How to tell: `nvidia-smi -q` prints a Product Name with GeForce or TITAN. `gdr probe cuda` reports
    attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) = 0. `ibv_reg_mr` fails with EFAULT ("Bad address", error 14),
    perftest with `Couldn't allocate MR with error=14`, nvidia-fs with
    `Error ret -22 invoking nvidia_p2p_get_pages`.

    What to do: Nothing that NVIDIA supports: its CUDA library refuses. With a modified library, or in a
    program that does without it, two people report success. `gdr estimate` says how fast the copy through
    host memory can be with this machine's links and ports. gdrkit believes a probe before a name.

    Why: It is a policy of the product line. NVIDIA's CUDA library does not create the object through which
    the kernel driver finds a process's memory (NV50_THIRD_PARTY_P2P); the kernel driver itself has no such
    test. So a patched driver for traffic between GPUs, such as tinygrad's for the RTX 4090, does not open
    the way to a NIC by itself. Two reports, which gdrkit did not repeat, got round the library: an RTX 5090
    with a changed library and NVIDIA's own kernel driver, where NCCL became direct; an RTX 3090 with changed
    kernel modules and a changed perftest that creates the object itself.

    Source: NVIDIA, GPUDirect RDMA guide, supported systems; open-gpu-kernel-modules
    kernel-open/nvidia/nv-p2p.c and src/nvidia/src/kernel/gpu/bus/third_party_p2p.c; for the reports
    github.com/aikitoria/open-gpu-kernel-modules issue 20, and "Enabling GPUDirect RDMA on GeForce GPUs".
    """
    failed = refused(node, gpu, "gpu-consumer", "a data centre, Quadro or RTX professional GPU")
    if failed is not None:
        return replace(failed, advice=_MODIFIED if _is_modified(node) else "")
    if is_consumer(node, gpu):
        return Passed("CUDA reports support, whatever the product's name")
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

    Cost: nvidia-peermem is the only direct path.

    How to tell: `nvidia-smi -q` prints the Product Architecture Volta, Pascal or older. The PCI id is below
    that of the first Turing, or the compute capability is below 7.5.

    What to do: Nothing for dma-buf. Use nvidia-peermem, with DOCA-OFED or a kernel that has the peer-memory
    API.

    Why: Only NVIDIA's open kernel module exports GPU memory as dma-buf, and it drives only Turing and
    newer.

    Source: open-gpu-kernel-modules README.md; NVIDIA GPU Operator documentation, GPUDirect RDMA, table of
    requirements.
    """
    failed = refused(node, gpu, "gpu-before-turing", "a GPU of Turing or newer")
    if failed is not None:
        return failed
    if is_before_turing(node, gpu):
        return Passed("older than Turing, but refused for another reason")
    return Passed("Turing or newer")
