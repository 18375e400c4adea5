"""States of a GPU in which only CUDA knows whether a NIC gets at its memory."""

from __future__ import annotations

from gdrkit.facts.gpu import confidential_compute, mig_enabled, vgpu_guest
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.node import Node
from gdrkit.rules.deciding_command import NVIDIA_SMI, DecidingCommand
from gdrkit.rules.gpu_support import only_cuda_knows, refused
from gdrkit.rules.rule import REGISTRATION, Layer, Outcome, Passed, rule


@rule(
    "gpu-vgpu",
    Layer.HARDWARE,
    per=gpus,
    takes=REGISTRATION,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`Virtualization Mode: VGPU`"),),
    cost="The guest's data passes through host memory unless its profile allows GPUDirect RDMA.",
    references=("https://docs.nvidia.com/ai-enterprise/",),
)
def gpu_vgpu(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU is a share of one (vGPU), lent to this virtual machine.

    Cost: Without the bit, registering GPU memory fails.

    How to tell: `nvidia-smi -q` prints Virtualization Mode VGPU. A GPU passed through whole prints
    Pass-Through, and is not meant here.

    What to do: Ask CUDA first (`gdr doctor --probe`). If it says no, a profile that has it, or the whole
    GPU by pass-through: both are for whoever runs the hypervisor.

    Why: The host's driver refuses unless the vGPU's profile carries the capability bit for GPUDirect RDMA,
    which only some profiles of some boards do.

    Source: open-gpu-kernel-modules src/nvidia/src/kernel/rmapi/nv_gpu_ops.c and p2p.c,
    GPU_DIRECT_RDMA_ENABLED; NVIDIA AI Enterprise, vGPU documentation.
    """
    if not vgpu_guest(node, gpu):
        return Passed("a whole GPU")
    failed = refused(node, gpu, "gpu-vgpu", "a vGPU profile with GPUDirect RDMA, or a whole GPU")
    return failed or only_cuda_knows(node, gpu, "gpu-vgpu")


@rule(
    "gpu-confidential",
    Layer.HARDWARE,
    per=gpus,
    takes=REGISTRATION,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`Conf Compute Protected Memory Usage` above 0"),),
    cost="Data passes through encrypted bounce buffers in host memory.",
    references=("https://docs.nvidia.com/confidential-computing/",),
)
def gpu_confidential(node: Node, gpu: PciGpu) -> Outcome:
    """Confidential computing is on: the GPU keeps its memory from other devices.

    Cost: Every byte is encrypted and copied through buffers outside the protected memory.

    How to tell: `nvidia-smi conf-compute -f` prints `CC status: ON`, or memory counts as protected.

    What to do: Turn confidential computing off for nodes that need the network more than the protection;
    this is a decision of the hypervisor's side, and needs a reset of the GPU.

    Why: In this mode devices cannot access the GPU's protected memory. NVIDIA's release notes say so of all
    devices; we found no sentence about GPUDirect RDMA itself, so CUDA is asked before anything is concluded.

    Source: NVIDIA Confidential Computing, release notes of R550 and R580 TRD1.
    """
    if not confidential_compute(node, gpu):
        return Passed("confidential computing is off")
    failed = refused(node, gpu, "gpu-confidential", "CC status: OFF")
    return failed or only_cuda_knows(node, gpu, "gpu-confidential")


@rule(
    "gpu-mig",
    Layer.HARDWARE,
    per=gpus,
    takes=REGISTRATION,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`MIG Mode: Current: Enabled`"),),
    cost="Whether a MIG instance can be reached depends on the driver; NCCL treats instances apart.",
    references=("https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",),
)
def gpu_mig(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU is split into MIG instances.

    Cost: Not known before CUDA is asked.

    How to tell: Instances among the driver's capabilities (capabilities/gpu0/mig/gi1), or MIG Mode Enabled
    in `nvidia-smi -q`.

    What to do: Ask CUDA (`gdr doctor --probe`). If peermem fails, `options nvidia-peermem
    persistent_api_support=0` lets it use the other kind of mapping; or turn MIG off (`nvidia-smi -mig 0`).

    Why: The driver's header says that persistent mappings, which nvidia-peermem makes by default since 560,
    do not work under MIG; its resource manager handles instances of their own kind since 560 all the same. A
    mapping that is forced through PCIe is always refused under MIG.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-p2p.h and src/nvidia/src/kernel/rmapi/p2p.c.
    """
    if not mig_enabled(node, gpu):
        return Passed("not split")
    failed = refused(node, gpu, "gpu-mig", "a GPU that is not split, or CUDA attribute 116 = 1")
    return failed or only_cuda_knows(node, gpu, "gpu-mig")
