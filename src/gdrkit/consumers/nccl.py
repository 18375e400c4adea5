"""NCCL, with its own network code: src/transport/net_ib. PURE."""

from __future__ import annotations

from gdrkit.consumers.consumer import DIRECT, Consumer, Looks, Path, PathUse, Switch
from gdrkit.evidence import Absent, Lacks, Missing, Why
from gdrkit.facts.environment import integer
from gdrkit.facts.kubernetes import has_gpu_operator
from gdrkit.facts.libraries import NEWEST_NCCL, Copy, nccl_copies, nccl_is_installed, nccl_version
from gdrkit.facts.nccl_log import logs, nccl_log
from gdrkit.facts.peer_memory import MEMORY_PEERS
from gdrkit.node import Node

_GDR = "NCCL src/transport/net_ib.cc, from 2.29.2 on src/transport/net_ib/gdr.cc: ncclIbGdrSupport()"


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
    version=nccl_version,
    common=True,
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
        Switch(
            name="NCCL_DMABUF_ENABLE",
            closes=(Path.DMABUF,),
            off=lambda value: integer(value) == 0,
            source="src/init.cc, NCCL_PARAM(DmaBufEnable)",
        ),
        Switch(
            name="OFI_NCCL_DISABLE_DMABUF",
            closes=(Path.DMABUF,),
            off=lambda value: integer(value) == 1,
            source="aws-ofi-nccl src/nccl_ofi_dmabuf.cpp",
        ),
        Switch(
            name="NCCL_IB_DISABLE",
            closes=DIRECT,
            off=lambda value: integer(value) not in (None, 0),
            network=True,
            source="src/transport/net_ib/init.cc, NCCL_PARAM(IbDisable)",
        ),
        Switch(
            name="NCCL_NET",
            closes=DIRECT,
            off=lambda value: value.lower() == "socket",
            network=True,
            source="src/plugin/net.cc",
        ),
        Switch(
            name="NCCL_NET_GDR_READ",
            closes=DIRECT,
            off=lambda value: integer(value) == 0,
            direction="send",
            source="src/graph/paths.cc, NCCL_PARAM(NetGdrRead)",
        ),
    ),
)
