"""What a machine offers to programs, unless a rule takes it away, and the paths of data that need it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct


class Path(enum.StrEnum):
    """How bytes get from GPU memory to the network, best first."""

    DMABUF = "dmabuf"
    PEERMEM = "peermem"
    EFA_P2P = "efa-p2p"  # Amazon's module efa pins GPU memory itself
    HOST_MAPPED = "host-mapped"
    STAGED = "staged"
    SOCKET = "socket"

    # without a NIC
    NVLINK = "nvlink"  # to other hosts
    CPU_MAPPED = "cpu-mapped"  # the CPU reads and writes GPU memory itself: no way to a network
    NVIDIA_FS = "nvidia-fs"  # from storage, with NVIDIA's module
    P2PDMA = "p2pdma"  # from NVMe drives, with the kernel's own peer-to-peer

    # who starts a transfer, once a direct path is open
    GPU_INITIATED = "gpu-initiated"
    CPU_ASSISTED = "cpu-assisted"


DIRECT = (Path.DMABUF, Path.PEERMEM)

WITHOUT_NIC = (Path.NVLINK, Path.CPU_MAPPED, Path.NVIDIA_FS, Path.P2PDMA)
"""The paths that involve no RDMA device: where there is none, each GPU is judged alone."""

OF_ITS_OWN = (*DIRECT, Path.EFA_P2P, *WITHOUT_NIC)
"""The paths without host memory, of which a program's best one is its state."""

INITIATED = (Path.GPU_INITIATED, Path.CPU_ASSISTED)
"""Whether a GPU kernel can start a transfer itself, or the CPU rings the doorbell for it."""


Fallback = Literal["host-mapped", "staged", "socket"]
"""The paths that remain if no direct one works."""


Direction = Literal["both", "send", "receive"]
"""Send: the NIC reads GPU memory. Receive: it writes GPU memory."""


class Capability(enum.StrEnum):
    """What a machine offers, unless a rule takes it away."""

    GPU = "there is a GPU"
    WIRE = "an RDMA port in the program's reach is up"
    DMABUF = "GPU memory can be registered as a dma-buf"
    ADDRESS = "GPU memory can be registered by its address"
    PINNING = "the GPU's driver gives other modules access to its memory"
    EFA_P2P = "Amazon's module efa pins GPU memory itself"
    VMM = "memory from cuMemCreate can be registered"
    DOORBELL = "a GPU may ring a NIC's doorbell"
    NIC_QUEUES = "a NIC's queues can be in GPU memory"
    FABRIC = "GPUs of other hosts can be reached over NVLink"
    GDRDRV = "the CPU can map GPU memory"
    NVIDIA_FS = "nvidia-fs reads from storage into GPU memory"
    P2PDMA = "the kernel moves data between drives and GPU memory"


class ConsumerPath(Struct, frozen=True):
    """One program's own condition for one path: its version, its switches, its policy."""

    consumer: str
    path: Path


Need = Capability | ConsumerPath

REGISTRATION = (Capability.DMABUF, Capability.ADDRESS)
"""How a NIC reaches GPU memory."""

GPU_MEMORY = (*REGISTRATION, Capability.PINNING, Capability.P2PDMA)
"""All that a GPU, or its driver, can keep from others: not only from NICs."""

NEEDS: Mapping[Path, frozenset[Capability]] = {
    Path.DMABUF: frozenset((Capability.GPU, Capability.WIRE, Capability.DMABUF)),
    Path.PEERMEM: frozenset((Capability.GPU, Capability.WIRE, Capability.ADDRESS)),
    Path.EFA_P2P: frozenset((Capability.GPU, Capability.WIRE, Capability.PINNING, Capability.EFA_P2P)),
    Path.HOST_MAPPED: frozenset((Capability.GPU, Capability.WIRE)),
    Path.STAGED: frozenset((Capability.GPU, Capability.WIRE)),
    Path.SOCKET: frozenset((Capability.GPU,)),
    Path.NVLINK: frozenset((Capability.GPU, Capability.FABRIC)),
    Path.CPU_MAPPED: frozenset((Capability.GPU, Capability.PINNING, Capability.GDRDRV)),
    Path.NVIDIA_FS: frozenset((Capability.GPU, Capability.PINNING, Capability.NVIDIA_FS)),
    Path.P2PDMA: frozenset((Capability.GPU, Capability.P2PDMA)),
    Path.GPU_INITIATED: frozenset(
        (Capability.GPU, Capability.WIRE, Capability.DOORBELL, Capability.NIC_QUEUES)
    ),
    Path.CPU_ASSISTED: frozenset((Capability.GPU, Capability.WIRE)),
}
"""The capabilities that each path needs, for any program."""
