"""Failed calls of libibverbs and completions: what each number means, whichever program prints it.

Sources: rdma-core libibverbs/verbs.h, enum ibv_wc_status, and providers/mlx5/mlx5dv.h for vendor errors;
ibv_reg_mr(3), ibv_modify_qp(3); NVIDIA/nccl issues 304, 426, 660, 707, 769, 925, 2013 and nccl-tests issues
185, 206.
"""

from __future__ import annotations

from errno import EHOSTUNREACH, ENETUNREACH, ENODATA, ENODEV, ETIMEDOUT

from msgspec import Struct

from gdrkit.messages.errors import EFAULT, EINVAL, ENOMEM, EOPNOTSUPP, EPROTONOSUPPORT

NO_GPU = ("gpu-consumer", "gpu-unsupported", "gpu-vgpu", "gpu-confidential", "gpu-mig")

NO_DMABUF = (
    "dmabuf-mr-refused",
    "kernel-lacks-dmabuf",
    "kernel-lacks-odp",
    "verbs-lacks-dmabuf",
    "provider-lacks-dmabuf",
)

_UNCLAIMED = ("peermem-not-loaded", "gpu-integrated", *NO_GPU, "bar1-exhausted", "memory-not-registrable")
"""Why ibv_reg_mr returns EFAULT for GPU memory. In the API since MOFED 5.1 the core first pins the pages
itself, which fails, and keeps that error unless a peer-memory client claims them; nvidia-peermem answers
"not mine" if nvidia_p2p_get_pages refuses. Source: MLNX_OFED drivers/infiniband/core/umem.c;
open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c."""

_REDIRECTED = ("acs-redirect", "iommu-translating")

OPEN_DEVICE = "ibv_open_device"
"""The name of NCCL's message that it cannot open an RDMA device."""

RAIL_FIRST = ("rail-unreachable", "gid-index-wrong")

_GID_FIRST = ("gid-index-wrong", "rail-unreachable")
"""A GID that is not routed fails like a rail that is not: NVIDIA/nccl issue 769."""


class FailureMeaning(Struct, frozen=True):
    """The meaning of a number for one call, or for a work completion."""

    meaning: str
    causes: tuple[str, ...] = ()  # likeliest first
    follows: bool = False  # it follows from another error, whose message has the reason
    todo: str = ""  # where it has no cause


_NO_REGISTRATION = FailureMeaning("kernel or driver does not support dma-buf registration", NO_DMABUF)

_NO_ROUTE = FailureMeaning("no route to the peer's address from this NIC, or a wrong GID", RAIL_FIRST)

FAILINGS: dict[tuple[str, int], FailureMeaning] = {
    ("ibv_reg_mr", EFAULT): FailureMeaning("no peer-memory client claims the GPU memory", _UNCLAIMED),
    ("ibv_reg_mr", ENOMEM): FailureMeaning(
        "memory cannot be pinned", ("memlock-limit", "bar1-exhausted", "memory-held-for-kexec")
    ),
    ("ibv_reg_mr", EINVAL): FailureMeaning(
        "the memory or its flags are refused", ("memory-not-registrable",)
    ),
    ("ibv_reg_dmabuf_mr", EOPNOTSUPP): _NO_REGISTRATION,
    ("ibv_reg_dmabuf_mr", EPROTONOSUPPORT): _NO_REGISTRATION,
    ("ibv_reg_dmabuf_mr", EINVAL): FailureMeaning(
        "the dma-buf is refused", ("dmabuf-mr-refused", "memory-not-registrable")
    ),
    ("ibv_reg_dmabuf_mr", EFAULT): FailureMeaning(
        "the dma-buf cannot be mapped for this device", ("dmabuf-mr-refused",)
    ),
    ("ibv_reg_dmabuf_mr", ENOMEM): FailureMeaning(
        "memory cannot be mapped", ("bar1-exhausted", "memlock-limit")
    ),
    ("ibv_modify_qp", EINVAL): FailureMeaning(
        "the GID index has no usable address, or both ends differ in MTU, VLAN or link layer", _GID_FIRST
    ),
    ("ibv_modify_qp", ETIMEDOUT): FailureMeaning(
        "the peer's address does not resolve from this NIC: rails without a route, or a wrong GID",
        RAIL_FIRST,
    ),
    ("ibv_modify_qp", ENETUNREACH): _NO_ROUTE,
    ("ibv_modify_qp", EHOSTUNREACH): _NO_ROUTE,
    ("ibv_modify_qp", ENODEV): FailureMeaning(
        "the GID belongs to no network interface here, as in a container without it, or the device was "
        "removed",
        ("gid-index-wrong", "port-down"),
    ),
    ("ibv_modify_qp", ENODATA): FailureMeaning(
        "no GID is at that index: the port's table is empty there", ("gid-index-wrong", "port-down")
    ),
    ("completion", 4): FailureMeaning(
        "the NIC is not allowed to access the local GPU's memory", _REDIRECTED
    ),
    ("completion", 5): FailureMeaning(
        "follows from another error: look for the first error of all ranks", follows=True
    ),
    ("completion", 9): FailureMeaning("the peer refused the request: its log has the reason", follows=True),
    ("completion", 10): FailureMeaning(
        "the peer's NIC is not allowed to access its GPU's memory", _REDIRECTED
    ),
    ("completion", 11): FailureMeaning("the peer's NIC failed to access its GPU's memory", _REDIRECTED),
    ("completion", 12): FailureMeaning(
        "the peer did not acknowledge: lost packets, a wrong GID, or a crash of the peer",
        ("retry-exceeded",),
    ),
    ("completion", 13): FailureMeaning("the peer posted no buffer in time", follows=True),
}
"""By call and errno, or by status of a work completion."""


def causes_of(call: str, number: int) -> tuple[str, ...]:
    """Codes of the causes for which a call fails with this number."""
    return FAILINGS[call, number].causes


def failing(call: str, number: int, *, routable: bool) -> FailureMeaning:
    """The meaning of a failed call or completion; without text if its number is not known."""
    known = FAILINGS.get((call, number), FailureMeaning(""))
    if routable and known.causes == RAIL_FIRST:  # both GIDs are printed, and neither is wrong
        return FailureMeaning(known.meaning.removesuffix(", or a wrong GID"), RAIL_FIRST[:1])
    return known
