"""What GPU kernels need of the machine to start transfers: NVSHMEM's IBGDA, NCCL's GDAKI, UCX's GDA."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.driver import PEER_MAPPING, registry_dwords
from gdrkit.facts.libraries import rdma_core_release
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.facts.verbs_kernel import DEVX_SYMBOL, queues_take_dmabuf
from gdrkit.facts.virtual import is_administrator, scope
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    DOORBELL,
    NIC_QUEUES,
    SHOWN_BY_MESSAGES,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    rule,
    the_node,
)

_DEVICE_API = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/deviceapi.html"
_NVSHMEM = "https://docs.nvidia.com/nvshmem/release-notes-install-guide/install-guide/"
_PARAMETERS = "grep RegistryDwords /proc/driver/nvidia/params"


@rule(
    "ibgda-peer-mapping-denied",
    Layer.DRIVER,
    per=the_node,
    takes=(DOORBELL,),
    remedies=(RemedyName.ALLOW_PEER_MAPPING,),
    reported_by=(DecidingCommand(_PARAMETERS, "no PeerMappingOverride=1"),),
    cost="The GPU cannot ring the NIC's doorbell: a CPU thread does, or the program stops.",
    references=(_NVSHMEM,),
)
def ibgda_peer_mapping_denied(node: Node, _: str) -> Outcome:
    """The driver does not let the GPU map the NIC's doorbell page.

    Cost: IBGDA and GDAKI use a thread of the processor for each message, or stop. GPU memory itself can
    still be registered.

    How to tell: The kernel log has `permission denied, allowPeermapping=0`. The program works as root on the
    host or in a privileged container, and fails otherwise.

    What to do: Load the driver with `options nvidia NVreg_EnableStreamMemOPs=1
    NVreg_RegistryDwords="PeerMappingOverride=1;"` in a file of /etc/modprobe.d, renew the initramfs and
    reboot.

    Why: Mapping the memory of another device is reserved for administrators unless the option allows it.

    Source: open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osmemdesc.c;
    kernel-open/common/inc/nv-linux.h, NV_IS_SUSER(): CAP_SYS_ADMIN.
    """
    try:
        if registry_dwords(node).get(PEER_MAPPING):
            return Passed(f"{PEER_MAPPING} is set")
    except EvidenceAbsent:
        return NotApplicable("the driver is not loaded")
    inside = if_missing("host", scope, node) == "container"
    if inside and is_administrator(node):
        return Passed("this container has CAP_SYS_ADMIN")
    return Failed(
        seen=f"RegistryDwords has no {PEER_MAPPING}=1"
        + (", and this container lacks CAP_SYS_ADMIN" if inside else "; only CAP_SYS_ADMIN may do it"),
        expected=f'NVreg_RegistryDwords="{PEER_MAPPING}=1;"',
        subject="nvidia",
    )


FIRST_WITH_QUEUES = 43
"""The release of rdma-core whose libmlx5 registers queues as a dma-buf: MLX5DV_UMEM_MASK_DMABUF in
providers/mlx5/mlx5dv.h, by commit f1ae8b8e of 2022-08-30, is in v43.0 and not in v42.0, with no symbol."""


@rule(
    "nic-buffers-not-mappable",
    Layer.RDMA,
    per=the_node,
    takes=(NIC_QUEUES,),
    remedies=(RemedyName.LOAD_PEERMEM,),  # a distribution's newest rdma-core may be older than 44
    reported_by=(
        DecidingCommand("NVSHMEM_IBGDA_FORCE_NIC_BUF_MEMTYPE=hostmem, set for the job", "it works then"),
    ),
    cost="IBGDA and GDAKI cannot keep the NIC's queues in GPU memory.",
    references=(_NVSHMEM,),
)
def nic_buffers_not_mappable(node: Node, _: str) -> Outcome:
    """The NIC's own queues cannot be placed in GPU memory.

    Cost: IBGDA skips the device, or keeps its queues in host memory, which is slower.

    How to tell: NVSHMEM prints `cannot allocate buffer on the specified memory type`.

    What to do: Load nvidia_peermem, or use a kernel of 6.1 or newer with a newer rdma-core. Until then set
    NVSHMEM_IBGDA_FORCE_NIC_BUF_MEMTYPE=hostmem.

    Why: The queues are registered as user memory of the device (DEVX umem), which needs dma-buf support of
    its own, or nvidia-peermem.

    Source: NVIDIA/nvshmem src/modules/transport/ibgda/ibgda.cpp, ibgda_check_nic_mapping_memtypes();
    linux-rdma/rdma-core commit f1ae8b8e, first in v43.0; NCCL's documentation of the device API names 44.
    """
    client = _client(node)
    if client:
        return Passed(f"{client} is loaded, which serves in its place")
    try:
        release = rdma_core_release(node)
    except EvidenceAbsent:
        return NotApplicable("libibverbs is not installed; an image brings its own")
    if release >= FIRST_WITH_QUEUES:
        return Passed(f"rdma-core {release}")
    return Failed(
        seen=f"rdma-core {release}, and nvidia_peermem is not loaded",
        expected=f"rdma-core {FIRST_WITH_QUEUES} or newer, or nvidia_peermem",
        subject="rdma-core",
    )


def _client(node: Node) -> str:
    """The module that serves registration by address, if one is loaded."""
    return next((name for name in (PEERMEM, LEGACY) if is_loaded(node, name)), "")


@rule(
    "gdaki-kernel-too-old",
    Layer.KERNEL,
    per=the_node,
    takes=(NIC_QUEUES,),
    remedies=(RemedyName.LOAD_PEERMEM,),
    reported_by=(DecidingCommand("uname -r", "a kernel before 6.1, and nvidia_peermem is not loaded"),),
    cost="The NIC's queues in GPU memory need nvidia_peermem.",
    references=(_DEVICE_API,),
)
def gdaki_kernel_too_old(node: Node, _: str) -> Outcome:
    """The kernel cannot register the NIC's queues in GPU memory as a dma-buf.

    Cost: GDAKI and IBGDA need nvidia_peermem here, although buffers of data are registered as dma-buf.

    How to tell: The module mlx5_ib does not import ib_umem_dmabuf_get_pinned: the kernel is older than 6.1,
    and no OFED has the change. A program prints `DEVX UMEM doesn't support DMA-BUF` or `does not support
    registering the NIC control buffers with DMABUF`.

    What to do: Load nvidia_peermem, or use a kernel of 6.1 or newer, or a DOCA-OFED that has the change.

    Why: mlx5 accepts dma-bufs for DEVX memory later than for memory regions.

    Source: Linux drivers/infiniband/hw/mlx5/devx.c, devx_umem_get(); NVIDIA/nccl docs, deviceapi.rst;
    NVIDIA/nvshmem issue 67; openucx/ucx src/uct/ib/mlx5/gdaki.
    """
    try:
        supported = queues_take_dmabuf(node)
    except EvidenceAbsent:
        return NotApplicable("mlx5_ib is not there")
    if supported:
        return Passed(f"mlx5_ib imports {DEVX_SYMBOL}")
    client = _client(node)
    if client:
        return Passed(f"{client} is loaded, which serves in its place")
    return Failed(
        seen=f"mlx5_ib does not import {DEVX_SYMBOL}, and nvidia_peermem is not loaded",
        expected="Linux 6.1, an OFED that has the change, or nvidia_peermem",
        subject="mlx5_ib",
    )


@rule(
    "nic-atomics-off",
    Layer.FIRMWARE,
    per=the_node,
    reported_by=(DecidingCommand("mlxconfig -d DEVICE q PCI_ATOMIC_MODE", "a mode without atomics"),),
    cost="IBGDA skips this NIC.",
    references=(_NVSHMEM,),
)
def nic_atomics_off(node: Node, _: str) -> Outcome:
    """The NIC's firmware does not offer the atomic operations that IBGDA needs.

    Cost: NVSHMEM skips the device; without another one it has no IBGDA.

    How to tell: NVSHMEM prints `does not support all necessary atomic operations`, and
    `mlxconfig -d <device> q PCI_ATOMIC_MODE` shows a mode without them. Virtual functions can lack them too.
    No file of the machine shows it, and no register of PCIe: AtomicOp Requester Enable is about the other
    half of the setting.

    What to do: Set PCI_ATOMIC_MODE with mlxconfig and restart the machine, or use the physical function.

    Why: IBGDA needs compare-and-swap and fetch-and-add, both also with a mask, of 4 and 8 bytes. It asks the
    firmware for them by a command that needs the NIC to be open (QUERY_HCA_CAP, atomic_caps).

    Source: NVIDIA/nvshmem src/modules/transport/common/transport_mlx5_common.cpp,
    nvshmemt_ib_common_check_nic_ext_atomic_support().
    """
    return SHOWN_BY_MESSAGES
