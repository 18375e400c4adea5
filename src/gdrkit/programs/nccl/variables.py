"""Variables that NCCL began or ceased to read, and what to know before one is set.

Source: NCCL at the tags from v2.3.5-5 to v2.30.7-1; the strings and disassembled defaults of libnccl 2.31.2
and 2.32.3, and NVIDIA's guide, Environment Variables. None of these settings was run on GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gdrkit.formats.misspelt import is_slip
from gdrkit.formats.whole_number import integer
from gdrkit.programs.nccl.releases import VARIABLE_SINCE


class VariableLife(Struct, frozen=True):
    """The releases that read a variable, and what it does."""

    name: str
    since: str  # "" where it is older than the oldest public tag
    effect: str = ""
    until: str = ""  # the first release that no longer reads it
    instead: str = ""  # the variable that took its place
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
    VariableLife("NCCL_IB_CUDA_SUPPORT", "", until="2.4.2", instead="NCCL_NET_GDR_LEVEL"),
    VariableLife("NCCL_IB_GDR_LEVEL", "", until="2.4.2", instead="NCCL_NET_GDR_LEVEL"),
    VariableLife(
        "NCCL_GDRCOPY_TAIL_ENABLE", "2.9.6", until="2.12.7", instead="NCCL_GDRCOPY_SYNC_ENABLE"
    ),
    VariableLife("NCCL_MNNVL", "2.20.3", until="2.21.5", instead="NCCL_MNNVL_ENABLE"),
    VariableLife("NCCL_GIN_NCONTEXTS", "2.28.7", until="2.30.3"),
    VariableLife("NCCL_GIN_SIGNAL_POOL_SIZE", "2.28.7", until="2.30.3"),
    VariableLife("NCCL_GIN_COUNTER_POOL_SIZE", "2.28.7", until="2.30.3"),
    VariableLife("NCCL_GIN_EXCLUSIVE_CONTEXTS", "2.29.7", until="2.30.3"),
    VariableLife("NCCL_NET_GDR_MLOPART", "2.30.7", "GPUDirect RDMA for partitions of a GPU", until="2.32.3"),
    VariableLife("NCCL_MLOPART_RDMA_ENABLE", "2.30.7", "the same", until="2.32.3"),
    VariableLife(
        "NCCL_TOPO_SCATTER_START_NET", "2.31.2", "GPUs of one NIC begin at different NICs", until="2.32.3"
    ),
)  # fmt: skip

OTHERS = {
    "2.24.3": (
        "IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_WARN_RAIL_LOCAL "
        "NET_OPTIONAL_RECV_COMPLETION RAS_ADDR RAS_ENABLE RAS_TIMEOUT_FACTOR SOCKET_RETRY_CNT "
        "SOCKET_RETRY_SLEEP_MSEC"
    ),
    "2.25.1": "MNNVL_UUID",
    "2.26.2": "NET_PLUGIN_REF_COUNT",
    "2.27.3": "IB_DATA_DIRECT SOCKET_INLINE SOCKET_MIN_TASKSIZE SOCKET_RCVBUF SOCKET_SNDBUF",
    "2.27.5": "MNNVL_SCATTER_NETS_ENABLE",
    "2.28.7": (
        "GIN_ENABLE GIN_ERROR_QUERY_SEC GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_PROXY_QUEUE_SIZE "
        "GIN_TYPE MNNVL_RAIL_PER_HOST"
    ),
    "2.29.2": (
        "NUM_RMA_CTX P2P_PER_CHANNEL_NET_BW RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE "
        "SOCKET_POLL_TIMEOUT_MSEC"
    ),
    "2.29.7": (
        "GDAKI_USE_RELIABLE_DB GIN_NCONNECTIONS GIN_PLUGIN GIN_PLUGIN_REF_COUNT IB_DEVICE_PCI_ORDER "
        "IB_PREPOST_RECEIVE_WORK_REQUESTS IB_RECEIVER_SIDE_MATCHING_SCHEME "
        "IB_RESILIENCY_PORT_FAILOVER IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS "
        "IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY SYM_GIN_KERNELS_ENABLE"
    ),
    "2.30.3": (
        "GIN_GDAKI_MAX_DEST_RD_ATOMIC GIN_GDAKI_MAX_QP_RD_ATOMIC IBVERBS_LIB IB_OOO_RQ "
        "IB_RESILIENCY_PORT_RECOVERY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT "
        "IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL "
        "IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE "
        "IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE "
        "IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX "
        "IB_RESILIENCY_PORT_RECOVERY_START_DELAY IGNORE_COLLNET_MISMATCH IGNORE_NET_MISMATCH "
        "MNNVL_CROSS_CLIQUE"
    ),
    "2.30.7": (
        "GIN_IB_TC IB_QUERY_PORT_SPEED IB_SUBNET_PREFIX_LEN RMA_DISABLE RMA_PLUGIN "
        "RMA_PLUGIN_REF_COUNT SYM_RS_GIN_CHUNK_SIZE TOPO_SPLIT_MLOPART"
    ),
    "2.31.2": (
        "IB_EVENT_BASED_LB_REMOTE IB_WQE_LATENCY_THRESHOLD_NS NUM_RMA_INT_CTX "
        "P2P_PER_CHANNEL_REG_NET_BW RMA_EAGER_INIT RMA_MULTI_CTX_THRESHOLD"
    ),
    "2.32.3": (
        "DEBUG_LEVELS PROGRESS_COUNTER_MONITOR_POLL_MS PROGRESS_COUNTER_MONITOR_STALE_MS "
        "PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC RMA_IB_WR_BATCHSIZE"
    ),
}
"""By release, further names about networks that it is the first to read, without `NCCL_`. From 2.24.3 on:
images that are in use have 2.21.5, which PyTorch 2.5 and 2.6 brought. Source: the names in NCCL's source at
each tag to v2.30.7-1 and of 2.31.2, and in the data that libnccl 2.32.3 reads."""
_OTHERS: Mapping[str, str] = {
    f"NCCL_{name}": since for since, names in OTHERS.items() for name in names.split()
}


OF_THE_NETWORK = (
    "NCCL_CROSS_NIC", "NCCL_CUMEM_ENABLE", "NCCL_DMABUF_ENABLE", "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_DISABLE", "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_IB_MERGE_NICS",
    "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_RETRY_CNT",
    "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_TIMEOUT", "NCCL_MNNVL_ENABLE", "NCCL_NET_GDR_C2C",
    "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_NET_PLUGIN", "NCCL_P2P_DISABLE", "NCCL_PXN_DISABLE",
    "NCCL_SHM_DISABLE", "NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE",
)  # fmt: skip
"""Variables that decide about the network. NCCL reads no other name that is one letter away from one of
these: the names in its source at 5067397c, of June 2026."""


def meant(name: str) -> str:
    """The variable of the network that a name was meant to be; "" for any other name."""
    return next((right for right in OF_THE_NETWORK if is_slip(name, right)), "")


def life_of(name: str) -> VariableLife | None:
    """The releases that read a variable; None for one that is older than all of these, or is none."""
    known = next((life for life in LIVES if life.name == name), None)
    since = _OTHERS.get(name) or VARIABLE_SINCE.get(name)
    return known if known is not None or since is None else VariableLife(name, since)


def is_ineffective(life: VariableLife, value: str) -> bool:
    """Whether NCCL ignores a value."""
    if not life.values:
        return False
    number = integer(value)
    return (str(number) if number is not None else value) not in life.values
