"""Settings of NCCL whose name is misspelt: the program ignores them without a word."""

from __future__ import annotations

import functools
import re

VARIABLES = frozenset((
    "NCCL_ALGO", "NCCL_BUFFSIZE", "NCCL_COLLNET_ENABLE", "NCCL_COMM_BLOCKING", "NCCL_CROSS_NIC",
    "NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS",
    "NCCL_DMABUF_ENABLE", "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_FILE", "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_AR_THRESHOLD", "NCCL_IB_CUDA_SUPPORT", "NCCL_IB_DATA_DIRECT", "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_IB_MERGE_NICS", "NCCL_IB_MERGE_VFS",
    "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_PKEY", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_RETRY_CNT",
    "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_SL", "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT", "NCCL_IB_USE_INLINE", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_LAUNCH_MODE",
    "NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_NRINGS", "NCCL_MNNVL_ENABLE", "NCCL_MNNVL_UUID", "NCCL_NET_DISABLE_INTRA",
    "NCCL_NET_FORCE_MERGE", "NCCL_NET_GDR_C2C", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ",
    "NCCL_NET_MERGE_LEVEL", "NCCL_NET_OVERHEAD", "NCCL_NET_PLUGIN", "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NET_SHARED_COMMS", "NCCL_NSOCKS_PERTHREAD", "NCCL_NTHREADS", "NCCL_NVB_DISABLE",
    "NCCL_NVLS_ENABLE", "NCCL_P2P_DIRECT_DISABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_PROTO",
    "NCCL_PXN_C2C", "NCCL_PXN_DISABLE", "NCCL_RAS_ENABLE", "NCCL_SHM_DISABLE",
    "NCCL_SHM_USE_CUDA_MEMCPY", "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS",
    "NCCL_TOPO_DUMP_FILE", "NCCL_TOPO_FILE", "NCCL_TUNER_PLUGIN", "UCX_IB_GID_INDEX",
    "UCX_IB_GPU_DIRECT_RDMA", "UCX_NET_DEVICES",
))  # fmt: skip
"""Variables that posts set. Source: NCCL User Guide, Environment Variables; UCX `ucx_info -c`."""

_NAME = re.compile(r"(?<![\w/.-])[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){2,8}(?![\w(])")
MAX_NAMES = 20
"""Names of a line that are compared."""


def misspelt(text: str) -> tuple[str, str] | None:
    """A name in a line that is one letter away from a variable, and that variable; None if there is none.

    Names with another first letter belong to other libraries, such as RCCL and HCCL."""
    if "_" not in text:
        return None
    for name in _NAME.findall(text)[:MAX_NAMES]:
        meant = _meant(name)
        if meant:
            return name, meant
    return None


@functools.lru_cache(maxsize=512)
def _meant(name: str) -> str:
    if name in VARIABLES or len(name) < MIN_LETTERS:
        return ""
    shorter = _without_a_letter()
    swapped = (name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(1, len(name) - 1))
    close = {known for known in swapped if known in VARIABLES} | set(shorter.get(name, ()))
    for at in range(len(name)):
        without = name[:at] + name[at + 1 :]
        if without in VARIABLES and len(without) >= MIN_LETTERS:
            close.add(without)
        close.update(known for known in shorter.get(without, ()) if known[:1] == name[:1])
    return close.pop() if len(close) == 1 else ""


MIN_LETTERS = 11
"""Shorter names resemble too many others."""


@functools.cache
def _without_a_letter() -> dict[str, tuple[str, ...]]:
    """The variables by what is left of them without one letter."""
    found: dict[str, tuple[str, ...]] = {}
    for known in VARIABLES:
        for at in range(len(known) if len(known) >= MIN_LETTERS else 0):
            left = known[:at] + known[at + 1 :]
            found[left] = (*found.get(left, ()), known)
    return {left: tuple(dict.fromkeys(known)) for left, known in found.items()}
