"""Calls and transfers that failed, what that means, and what can cause it. PURE.

Sources: rdma-core libibverbs/verbs.h, enum ibv_wc_status, and providers/mlx5/mlx5dv.h for vendor errors;
ibv_reg_mr(3), ibv_modify_qp(3); NVIDIA/nccl issues 304, 426, 660, 707, 925, 2013 and nccl-tests issues 185,
206.
"""

from __future__ import annotations

from collections import defaultdict

from gdrkit.facts.nccl_records import Failure
from gdrkit.nccl.gather import Gathered
from gdrkit.nccl.job import Error
from gdrkit.nccl.tally import Entry

_REDIRECTED = ("acs-redirect", "iommu-translating")
_PINNED = (
    "peermem-not-loaded", "gpu-integrated", "gpu-consumer", "gpu-unsupported", "memory-not-registrable",
    "bar1-exhausted",
)  # fmt: skip
_NO_DMABUF = ("verbs-lacks-dmabuf", "kernel-lacks-dmabuf", "kernel-lacks-odp", "dmabuf-mr-refused")

MEANINGS: dict[tuple[str, int], tuple[str, tuple[str, ...]]] = {
    ("ibv_reg_mr", 14): ("nothing claims GPU memory for plain registration", _PINNED),
    ("ibv_reg_mr", 12): ("memory cannot be pinned", ("memlock-limit", "bar1-exhausted")),
    ("ibv_reg_mr", 22): ("the memory or its flags are refused", ("memory-not-registrable",)),
    ("ibv_reg_dmabuf_mr", 95): ("kernel or driver registers no dma-buf", _NO_DMABUF),
    ("ibv_reg_dmabuf_mr", 93): ("kernel or driver registers no dma-buf", _NO_DMABUF),
    ("ibv_reg_dmabuf_mr", 22): ("the dma-buf is refused", ("dmabuf-mr-refused", "memory-not-registrable")),
    ("ibv_reg_dmabuf_mr", 14): ("the dma-buf cannot be mapped for this device", ("dmabuf-mr-refused",)),
    ("ibv_reg_dmabuf_mr", 12): ("memory cannot be mapped", ("bar1-exhausted", "memlock-limit")),
    ("ibv_modify_qp", 22): ("the GID index has no address in use", ("gid-index-wrong",)),
    ("ibv_modify_qp", 110): ("the peer's address does not resolve from this NIC: rails without a route", ()),
    ("ibv_modify_qp", 101): ("no route to the peer's address from this NIC", ()),
    ("ibv_modify_qp", 19): ("the device or its network interface has gone", ("port-down",)),
    ("completion", 4): ("the NIC may not reach the local GPU's memory", _REDIRECTED),
    ("completion", 5): ("follows from another error: look for the first one of all ranks", ()),
    ("completion", 9): ("the peer refused the request: its log has the reason", ()),
    ("completion", 10): ("the peer's NIC may not reach its GPU's memory", _REDIRECTED),
    ("completion", 11): ("the peer's NIC failed to reach its GPU's memory", _REDIRECTED),
    ("completion", 12): (
        "the peer did not acknowledge: lost packets, a wrong GID, or it died", ("retry-exceeded",),
    ),
    ("completion", 13): ("the peer posted no buffer in time", ()),
}  # fmt: skip
"""By call and errno, or by status of a work completion."""

CONSEQUENCES = {("completion", 5), ("completion", 9), ("completion", 13)}
BLOCKING = ("ibv_reg_mr", "ibv_reg_dmabuf_mr")
"""Calls without which there is no direct path."""


def errors(gathered: Gathered) -> list[Error]:
    """Every kind of failure, those that follow from others last, else by their first line."""
    found: dict[tuple[str, int | None, int | None], list[tuple[str, Failure, Entry]]] = defaultdict(list)
    for process in gathered.processes.values():
        for failure, entry in process.all(Failure).items():
            found[failure.call, failure.number, failure.vendor_error].append((process.name, failure, entry))
    made = []
    for (call, number, vendor), seen in found.items():
        unknown = ("", ())
        meaning, codes = MEANINGS.get((call, number), unknown) if number is not None else unknown
        first = min((entry for _, _, entry in seen), key=lambda entry: entry.place)
        made.append(
            Error(
                call=call, number=number, vendor_error=vendor, meaning=meaning, codes=codes,
                ranks=len({name for name, _, _ in seen}),
                count=sum(max(1, entry.count) for _, _, entry in seen),
                place=gathered.where(first.place), words=first.words,
            )
        )  # fmt: skip
    return sorted(made, key=lambda error: ((error.call, error.number) in CONSEQUENCES, error.place))
