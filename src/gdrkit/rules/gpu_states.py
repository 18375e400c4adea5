"""States of a GPU in which only CUDA knows whether a NIC can reach its memory."""

from __future__ import annotations

from gdrkit.facts.gpu import mig_enabled, vgpu_guest
from gdrkit.facts.gpu_confidential import confidential_compute
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.node import Node
from gdrkit.rules.capabilities import GPU_MEMORY
from gdrkit.rules.deciding_command import NVIDIA_SMI, DecidingCommand
from gdrkit.rules.gpu_support import only_cuda_knows, refused
from gdrkit.rules.rule import Layer, Outcome, Passed, rule


@rule(
    "gpu-vgpu",
    Layer.HARDWARE,
    per=gpus,
    takes=GPU_MEMORY,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`Virtualization Mode: VGPU`"),),
    cost="Data goes through host memory unless the vGPU's profile allows GPUDirect RDMA.",
    references=("https://docs.nvidia.com/ai-enterprise/",),
)
def gpu_vgpu(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU is a vGPU: a share of a GPU, assigned to this virtual machine.

    Cost: Unless the vGPU's profile allows GPUDirect RDMA, registering GPU memory fails.

    How to tell: `nvidia-smi -q` prints Virtualization Mode VGPU. A GPU that is passed through whole prints
    Pass-Through, has the PCI subsystem id of its board, which no vGPU has, and is called by its board's name
    in /proc/driver/nvidia/gpus, without a share such as -24Q; this page is not about it.

    What to do: First ask CUDA with `gdr doctor --probe`. If it reports no support, ask the administrator of
    the hypervisor for a profile that allows GPUDirect RDMA, or for a whole GPU by pass-through.

    Why: The host's driver refuses unless the vGPU's profile has the capability bit for GPUDirect RDMA,
    which only some profiles of some boards have.

    Source: open-gpu-kernel-modules src/nvidia/src/kernel/rmapi/nv_gpu_ops.c and p2p.c,
    GPU_DIRECT_RDMA_ENABLED; NVIDIA AI Enterprise, vGPU documentation: "only on a subset of vGPUs and guest
    OS releases"; for subsystem ids, src/nvidia/generated/g_nv_name_released.h.
    """
    if not vgpu_guest(node, gpu):
        return Passed("a whole GPU")
    failed = refused(node, gpu, "gpu-vgpu", "a vGPU profile with GPUDirect RDMA, or a whole GPU")
    return failed or only_cuda_knows(node, gpu, "gpu-vgpu")


@rule(
    "gpu-confidential",
    Layer.HARDWARE,
    per=gpus,
    takes=GPU_MEMORY,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`Conf Compute Protected Memory Usage` above 0"),),
    cost="Data goes through encrypted bounce buffers in host memory.",
    references=("https://docs.nvidia.com/confidential-computing/",),
)
def gpu_confidential(node: Node, gpu: PciGpu) -> Outcome:
    """Confidential computing is on: the GPU protects its memory from other devices.

    Cost: Every byte is encrypted and copied through buffers outside the protected memory.

    How to tell: `nvidia-smi conf-compute -f` prints `CC status: ON`, or `nvidia-smi -q` counts memory as
    protected. It is off in an x86 guest whose kernel log, from the boot on, has no line `Memory Encryption
    Features active`: there the driver starts no GPU in this mode.

    What to do: First ask CUDA with `gdr doctor --probe`. If it reports no support, turn confidential
    computing off on nodes that need the network more than the protection. That is decided on the
    hypervisor's side, and needs a reset of the GPU.

    Why: In this mode, devices cannot access the GPU's protected memory. NVIDIA's release notes say so about
    all devices; we found no sentence about GPUDirect RDMA itself, so gdrkit asks CUDA before it concludes
    anything.

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
    takes=GPU_MEMORY,
    reported_by=(DecidingCommand(NVIDIA_SMI, "`MIG Mode: Current: Enabled`"),),
    cost="The driver decides whether a MIG instance can be reached; NCCL treats instances separately.",
    references=("https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",),
)
def gpu_mig(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU is split into MIG instances.

    Cost: Not known until CUDA is asked.

    How to tell: `nvidia-smi -q` prints MIG Mode Enabled, or instances exist among the driver's capabilities
    (/proc/driver/nvidia/capabilities/gpu0/mig/gi1).

    What to do: First ask CUDA with `gdr doctor --probe`. If peermem fails, add
    `options nvidia-peermem persistent_api_support=0` to a file in /etc/modprobe.d, so that it uses the
    other kind of mapping; or turn MIG off with `sudo nvidia-smi -mig 0`.

    Why: The driver's header says that persistent mappings, which nvidia-peermem uses by default since 560,
    do not work under MIG. Even so, the driver's resource manager has handled instances separately since
    560. A mapping that is forced through PCIe is always refused under MIG.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-p2p.h and src/nvidia/src/kernel/rmapi/p2p.c.
    """
    if not mig_enabled(node, gpu):
        return Passed("not split")
    failed = refused(node, gpu, "gpu-mig", "a GPU that is not split, or CUDA attribute 116 = 1")
    return failed or only_cuda_knows(node, gpu, "gpu-mig")
