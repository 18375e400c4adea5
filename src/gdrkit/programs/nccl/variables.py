"""Variables that NCCL began or ceased to read since 2.30.5, and what to know before one is set.

Source: the strings and disassembled defaults of libnccl 2.31.2 and 2.32.3, and NVIDIA's guide, Environment
Variables. None of these settings was run on GPUs.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.formats.whole_number import integer


class VariableLife(Struct, frozen=True):
    """The releases that read a variable, and what it does."""

    name: str
    since: str
    effect: str
    until: str = ""  # the first release that no longer reads it
    values: tuple[str, ...] = ()  # all that it takes, if they are few


ON_ALL_RANKS = (
    "set it on all ranks, or the start may hang; every container needs perftest (ib_write_bw); it loads "
    "NICs that other jobs use, and fails without a fault on the second function of a card (DGX Spark, "
    "BlueField, SR-IOV); remove it after the run"
)
DIAGNOSTICS, COMPARISON = "NCCL_RUN_DIAGNOSTICS", "NCCL_RUN_RAS_DIAGNOSTICS"
COMPARED = (
    "compares GPUs, drivers, settings, IOMMU and Xid errors of all ranks; rank 0 decides; remove it later"
)

LIVES = (
    VariableLife(DIAGNOSTICS, "2.31.2", f"tests GPU pairs, from 2.32.3 on NICs too: {ON_ALL_RANKS}"),
    VariableLife(COMPARISON, "2.31.2", COMPARED),
    VariableLife("NCCL_DIAGNOSTICS_ECC_THRESHOLD", "2.31.2", "how many corrected errors are reported"),
    VariableLife("NCCL_DIAGNOSTICS_IB_BW_TIMEOUT", "2.32.3", "seconds before a phase may begin; 5"),
    VariableLife(
        "NCCL_GDRCOPY_USE_INTERNAL_DMABUF", "2.31.2",
        "0: libgdrapi, then NCCL's own mapping of dma-bufs (CUDA driver 13.3 and newer); 1: only that, or "
        "the start fails; 2: only that, or no GDRCopy",
        values=("0", "1", "2"),
    ),
    VariableLife("NCCL_GIN_PROXY_NTHREADS", "2.31.2", "threads of GIN's proxy; 1"),
    VariableLife("NCCL_GIN_PROXY_POLL_BATCH", "2.31.2", "completions that GIN's proxy takes at once; 32"),
    VariableLife("NCCL_GIN_IB_OOO_OPT", "2.31.2", "GIN's writes may arrive out of order; 0"),
    VariableLife("NCCL_GDAKI_FORCE_MCST", "2.32.3", "a fence of GIN; on by itself with Data Direct"),
    VariableLife("NCCL_GIN_GDAKI_LAG_AWARE_DISABLE", "2.32.3", "queue pairs of GIN ignore bonded ports; 0"),
    VariableLife(
        "NCCL_IB_RAIL_POLICY", "2.32.3", "rails of ConnectX-9 on Arm hosts; CX9:FLIP",
        values=("NONE", "CX9", "CX9:FLIP", "CX9:ALT", "CX9:BLOCK"),
    ),
    VariableLife("NCCL_IB_SORT_MERGE_NICS", "2.32.3", "parts of a merged NIC in the order of planes; 1"),
    VariableLife(
        "NCCL_NET_MERGE_POLICY", "2.30.5", "RAIL: merge NICs of one rail only", values=("ALL", "RAIL")
    ),
    VariableLife("NCCL_IB_PKEY_VALUE", "2.31.2", "the partition by its value, not its index"),
    VariableLife("NCCL_IB_EVENT_BASED_LB", "2.31.2", "spreads queue pairs by events of congestion; 0"),
    VariableLife("NCCL_IB_WQE_LATENCY_REPORT", "2.31.2", "reports slow work requests; 1"),
    VariableLife("NCCL_PROGRESS_COUNTERS", "2.32.3", "GPUs report their progress; 0"),
    VariableLife("NCCL_NET_GDR_MLOPART", "2.30.7", "GPUDirect RDMA for partitions of a GPU", until="2.32.3"),
    VariableLife("NCCL_MLOPART_RDMA_ENABLE", "2.30.7", "the same", until="2.32.3"),
    VariableLife(
        "NCCL_TOPO_SCATTER_START_NET", "2.31.2", "GPUs of one NIC begin at different NICs", until="2.32.3"
    ),
)  # fmt: skip


def life_of(name: str) -> VariableLife | None:
    """The releases that read a variable; None for one that is older than all of these, or is none."""
    return next((life for life in LIVES if life.name == name), None)


def is_ineffective(life: VariableLife, value: str) -> bool:
    """Whether NCCL ignores a value."""
    if not life.values:
        return False
    number = integer(value)
    return (str(number) if number is not None else value) not in life.values
