"""NCCL, with its own network code: src/transport/net_ib. PURE."""

from __future__ import annotations

from gdrkit.consumers.consumer import Consumer, Looks, Path, PathUse, Switch
from gdrkit.evidence import Absent, Lacks, Missing, Why
from gdrkit.facts.environment import integer
from gdrkit.facts.kubernetes import has_gpu_operator
from gdrkit.facts.libraries import NEWEST_NCCL, Copy, nccl_copies, nccl_is_installed
from gdrkit.facts.nccl_log import logs, nccl_log
from gdrkit.facts.peer_memory import MEMORY_PEERS
from gdrkit.node import Node

_GDR = "NCCL src/transport/net_ib.cc, from 2.29.2 on src/transport/net_ib/gdr.cc: ncclIbGdrSupport()"
DIRECT = (Path.DMABUF, Path.PEERMEM)


def copies(node: Node) -> tuple[Copy, ...]:
    """Each NCCL that is seen, on disk or in a log."""
    found = {copy.source: copy.version for copy in nccl_copies(node)}
    for path in logs(node):
        try:
            log = nccl_log(node, path)
        except Lacks:  # a log of something else
            continue
        for said in log.versions[:1]:
            found[f"{path}:{said.line}"] = said.text
    if found:
        return tuple(Copy(version, where) for where, version in found.items())
    missing = Missing("version of libnccl", Why.UNDECIDED, "strings libnccl.so.2 | grep 'NCCL version'")
    # Where none is installed, or the GPU Operator looks after the driver, images bring the newest.
    raise (Absent if has_gpu_operator(node) or not nccl_is_installed(node) else Lacks)(missing)


NCCL = Consumer(
    name="nccl",
    title="NCCL",
    copies=copies,
    assumed=NEWEST_NCCL,
    uses=(
        PathUse(path=Path.DMABUF, since=(2, 13, 4)),  # src/init.cc, dmaBufSupported(): ncclNet_v6
        PathUse(
            path=Path.PEERMEM,
            looks=(
                Looks(
                    (2, 23, 4),
                    (
                        f"{MEMORY_PEERS}/nv_mem/version",
                        f"{MEMORY_PEERS}/nv_mem_nc/version",
                        "sys/module/nvidia_peermem/version",
                    ),
                    _GDR,
                ),
                Looks(
                    (2, 22), (f"{MEMORY_PEERS}/nv_mem/version", f"{MEMORY_PEERS}/nv_mem_nc/version"), _GDR
                ),
                Looks(
                    (2, 9, 8),
                    (f"{MEMORY_PEERS}/nv_mem/version", f"{MEMORY_PEERS}/nvidia-peermem/version"),
                    _GDR,
                ),
                Looks((2,), (f"{MEMORY_PEERS}/nv_mem/version",), _GDR),
            ),
        ),
        PathUse(path=Path.STAGED),
        PathUse(path=Path.SOCKET),
    ),
    switches=(
        Switch("NCCL_DMABUF_ENABLE", (Path.DMABUF,), lambda v: integer(v) == 0, source="src/init.cc"),
        Switch("OFI_NCCL_DISABLE_DMABUF", (Path.DMABUF,), lambda v: integer(v) == 1, source="aws-ofi-nccl"),
        Switch("NCCL_IB_DISABLE", DIRECT, lambda v: integer(v) not in (None, 0), source="net_ib/init.cc"),
        Switch("NCCL_NET", DIRECT, lambda v: v.lower() == "socket", source="src/plugin/net.cc"),
        Switch("NCCL_NET_GDR_READ", DIRECT, lambda v: integer(v) == 0, "send", "src/graph/paths.cc"),
    ),
    proof="channel lines `via NET/IB/0/GDRDMA`",
)
