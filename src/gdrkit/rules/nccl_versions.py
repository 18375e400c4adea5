"""What copies of NCCL on a node are too old for. PURE."""

from __future__ import annotations

from gdrkit.evidence import Lacks, Missing, Why
from gdrkit.facts.kubernetes import has_gpu_operator
from gdrkit.facts.libraries import NEWEST_NCCL, nccl_copies, nccl_is_installed
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.nccl_log import logs, nccl_log
from gdrkit.facts.peer_memory import MEMORY_PEERS, MemoryPeer, memory_peers
from gdrkit.facts.versions import numbers
from gdrkit.node import Node, otherwise
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node
from gdrkit.topology.nccl_nic import probed_files

FIRST_WITH_DMABUF = (2, 13, 4)
"""First release with ncclNet_v6 and regMrDmaBuf: src/init.cc, dmaBufSupported()."""


def versions(node: Node) -> dict[str, str]:
    """Each NCCL that is seen, in a log or on disk: where, and its version. Empty if none is."""
    found = {copy.source: copy.version for copy in nccl_copies(node)}
    for path in logs(node):
        try:
            log = nccl_log(node, path)
        except Lacks:  # a log of something else
            continue
        for said in log.versions[:1]:
            found[f"{path}:{said.line}"] = said.text
    return found


@rule(
    "nccl-misses-peermem",
    Layer.LIBRARY,
    per=the_node,
    blocks=("peermem",),
    consumers=("nccl",),
    cost="NCCL copies through host memory although nvidia-peermem works: 180 became 10 GB/s in one report.",
    references=("https://github.com/NVIDIA/nccl/issues/1676",),
)
def nccl_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem is loaded and works, and this NCCL does not notice it.

    Seen: NCCL logs `GPU Direct RDMA Disabled for HCA` while nvidia_peermem is in /proc/modules and
    `ib_write_bw --use_cuda` succeeds. None of the files that this version of NCCL looks for exists.

    Why: before 2.23.4 NCCL looks only below /sys/kernel/mm/memory_peers. Whether the RDMA core makes that
    folder depends on kernel and OFED: it needs a kernel symbol, mm_kobj, that newer kernels do not export.
    From 2.23.4 on it also accepts /sys/module/nvidia_peermem.

    Cost: the peermem path is closed for NCCL alone; verbs programs use it.

    Fix: NCCL 2.23.4 or newer: look at the copy that the job loads, which in containers and Python wheels is
    not the system's. Or use dma-buf.

    Source: NCCL src/transport/net_ib.cc, ncclIbGdrSupport(), at the tags from 2.4 to 2.30.
    """
    if not is_loaded(node, PEERMEM):
        return NotApplicable("nvidia_peermem is not loaded")
    seen = versions(node)
    if not seen:
        return _unseen(node)
    blind = {where: version for where, version in seen.items() if not _finds(node, version)}
    if not blind:
        return Passed(f"NCCL {min(seen.values(), key=numbers)} finds it")
    where, version = min(blind.items(), key=lambda item: numbers(item[1]))
    return Failed(
        seen=f"NCCL {version} ({where}) finds none of {', '.join(probed_files(version))}",
        expected="NCCL 2.23.4 or newer",
        subject=where,
        blocks=None if len(blind) == len(seen) else (),
    )


def _unseen(node: Node) -> Outcome:
    """Of an NCCL whose version nobody saw: any finds a client below memory_peers, else the version decides.

    Where somebody looked and none is installed, or where the GPU Operator looks after the driver, programs
    run in images that bring their own, and the newest is assumed."""
    if _finds(node, "2.4"):
        return Passed("every NCCL finds it below memory_peers")
    if has_gpu_operator(node) or not nccl_is_installed(node):
        return NotApplicable(f"no NCCL is installed; {NEWEST_NCCL} in an image would find it")
    raise Lacks(Missing("version of libnccl", Why.UNDECIDED, "strings libnccl.so.2 | grep 'NCCL version'"))


def _finds(node: Node, version: str) -> bool:
    files = probed_files(version)
    if "sys/module/nvidia_peermem/version" in files:
        return True
    nobody: tuple[MemoryPeer, ...] = ()
    clients = otherwise(lambda: memory_peers(node), nobody)
    return any(f"{MEMORY_PEERS}/{peer.client}/version" in files for peer in clients)


@rule(
    "nccl-lacks-dmabuf",
    Layer.LIBRARY,
    per=the_node,
    blocks=("dmabuf",),
    consumers=("nccl",),
    cost="NCCL needs nvidia-peermem, or copies through host memory.",
    references=("https://docs.nvidia.com/deeplearning/nccl/release-notes/",),
)
def nccl_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """This NCCL is from before dma-buf.

    Seen: a version below 2.13.4. Its log never says `DMA-BUF is available on GPU device`.

    Why: NCCL learned to register dma-bufs with 2.13.4. It also needs to be built with CUDA 11.7 or newer,
    which cannot be seen from outside.

    Cost: the dma-buf path is closed for NCCL.

    Fix: a newer NCCL in the image or environment that the job loads.

    Source: NCCL src/init.cc, dmaBufSupported(), first in v2.13.4-1.
    """
    seen = versions(node)
    old = {where: version for where, version in seen.items() if numbers(version) < FIRST_WITH_DMABUF}
    if not seen:
        return NotApplicable(f"no NCCL is seen; {NEWEST_NCCL} does dma-buf")
    if not old:
        return Passed(f"NCCL {min(seen.values(), key=numbers)} does dma-buf")
    where, version = next(iter(old.items()))
    return Failed(
        seen=f"NCCL {version} ({where})",
        expected="NCCL 2.13.4 or newer",
        subject=where,
        blocks=None if len(old) == len(seen) else (),
    )
