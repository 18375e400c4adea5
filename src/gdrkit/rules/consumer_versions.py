"""What the copies of a program on a node are too old for: one question per path, by its own table."""

from __future__ import annotations

from gdrkit.consumers.consumer import Consumer
from gdrkit.consumers.nccl import NCCL
from gdrkit.consumers.ucx import UCX
from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts.libraries import LibraryCopy
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.peer_memory import MEMORY_PEERS, memory_peers
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_absent
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node

NCCL_VERSION = "NCCL_DEBUG=VERSION, set for the job"


def too_old(node: Node, consumer: Consumer, path: str) -> Outcome:
    """Whether a program's copies are from before it had a path."""
    name, since = consumer.title, consumer.use(path).since
    try:
        copies = consumer.copies(node)
    except EvidenceMissing:
        return NotApplicable(f"no {name} is seen; {consumer.assumed} is assumed")
    old = tuple(copy for copy in copies if numbers(copy.version) < since)
    if not old:
        return Passed(f"{name} {min((c.version for c in copies), key=numbers)} has it")
    return _failed(consumer, old[0], copies, old, "", since)


def overlooks(node: Node, consumer: Consumer) -> Outcome:
    """Whether a program's copies look for files that do not exist, while nvidia-peermem is loaded."""
    if not is_loaded(node, PEERMEM):
        return NotApplicable("nvidia_peermem is not loaded")
    looks = consumer.use("peermem").required_files
    if _one_exists(node, looks[-1].files):
        return Passed(f"every {consumer.title} finds it below memory_peers")
    try:
        copies = consumer.copies(node)
    except EvidenceAbsent:
        return NotApplicable(f"no {consumer.title} is installed")
    blind = tuple(c for c in copies if not _one_exists(node, consumer.files_wanted("peermem", c.version)))
    if not blind:
        return Passed(f"{consumer.title} {min((c.version for c in copies), key=numbers)} finds it")
    worst = min(blind, key=lambda copy: numbers(copy.version))
    files = ", ".join(consumer.files_wanted("peermem", worst.version))
    return _failed(consumer, worst, copies, blind, f" finds none of {files}", looks[0].since)


def _failed(
    consumer: Consumer,
    copy: LibraryCopy,
    copies: tuple[LibraryCopy, ...],
    bad: tuple[LibraryCopy, ...],
    what: str,
    since: tuple[int, ...],
) -> Failed:
    """Only what every copy lacks takes the path away: nobody knows which one a job loads."""
    which = f"{consumer.title} {copy.version}"
    return Failed(
        seen=which + (f" ({copy.source})" if copy.source else "") + what,
        expected=f"{consumer.title} {'.'.join(map(str, since))} or newer",
        subject=copy.source or which,
        takes=None if len(bad) == len(copies) else (),
    )


def _one_exists(node: Node, files: tuple[str, ...]) -> bool:
    if "sys/module/nvidia_peermem/version" in files:
        return True  # it is loaded
    clients = if_absent((), memory_peers, node)
    return any(f"{MEMORY_PEERS}/{peer.client}/version" in files for peer in clients)


@rule(
    "nccl-misses-peermem",
    Layer.LIBRARY,
    per=the_node,
    takes=NCCL.own("peermem"),
    reported_by=(DecidingCommand(NCCL_VERSION, "a version before 2.23.4, while nvidia_peermem is loaded"),),
    remedies=(RemedyName.UPGRADE_NCCL,),
    cost="NCCL copies through host memory although nvidia-peermem works: 180 became 10 GB/s in one report.",
    references=("https://github.com/NVIDIA/nccl/issues/1676",),
)
def nccl_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem is loaded and works, and this NCCL does not notice it.

    Cost: The peermem path is closed for NCCL alone; verbs programs use it.

    How to tell: NCCL logs `GPU Direct RDMA Disabled for HCA` while nvidia_peermem is in /proc/modules and
    `ib_write_bw --use_cuda` succeeds. None of the files that this version of NCCL looks for exists.

    What to do: NCCL 2.23.4 or newer: look at the copy that the job loads, which in containers and Python
    wheels is not the system's. Or use dma-buf.

    Why: Before 2.23.4 NCCL looks only below /sys/kernel/mm/memory_peers. Whether the RDMA core makes that
    folder depends on kernel and OFED: it needs a kernel symbol, mm_kobj, that newer kernels do not export.
    From 2.23.4 on it also accepts /sys/module/nvidia_peermem.

    Source: NCCL src/transport/net_ib.cc, ncclIbGdrSupport(), at the tags from 2.4 to 2.30.
    """
    return overlooks(node, NCCL)


@rule(
    "nccl-lacks-dmabuf",
    Layer.LIBRARY,
    per=the_node,
    takes=NCCL.own("dmabuf"),
    reported_by=(DecidingCommand(NCCL_VERSION, "a version before 2.13.4"),),
    remedies=(RemedyName.UPGRADE_NCCL,),
    cost="NCCL needs nvidia-peermem, or copies through host memory.",
    references=("https://docs.nvidia.com/deeplearning/nccl/release-notes/",),
)
def nccl_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """This NCCL is from before dma-buf.

    Cost: The dma-buf path is closed for NCCL.

    How to tell: A version below 2.13.4. Its log never says `DMA-BUF is available on GPU device`.

    What to do: A newer NCCL in the image or environment that the job loads.

    Why: NCCL learned to register dma-bufs with 2.13.4. It also needs to be built with CUDA 11.7 or newer,
    which cannot be seen from outside.

    Source: NCCL src/init.cc, dmaBufSupported(), first in v2.13.4-1.
    """
    return too_old(node, NCCL, "dmabuf")


@rule(
    "ucx-misses-peermem",
    Layer.LIBRARY,
    per=the_node,
    takes=UCX.own("peermem"),
    cost="UCX stages GPU memory through host memory although nvidia-peermem works.",
    references=("https://github.com/openucx/ucx/blob/master/src/uct/ib/base/ib_md.c",),
)
def ucx_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem is loaded and works, and this UCX does not notice it.

    Cost: The peermem path is closed for UCX alone.

    How to tell: UCX older than 1.18, nvidia_peermem loaded, and no file
    /sys/kernel/mm/memory_peers/nv_mem/version.

    What to do: UCX 1.18 or newer (also in HPC-X and in images), or dma-buf, which UCX does from 1.14 on.

    Why: Until 1.17 that file is the only sign that UCX accepts, and not every kernel with the API has it.
    From 1.18 on /sys/module/nvidia_peermem/version counts as well.

    Source: Openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_check_gpudirect_driver() and its callers, at the
    tags from 1.5 to 1.20.
    """
    return overlooks(node, UCX)


@rule(
    "ucx-lacks-dmabuf",
    Layer.LIBRARY,
    per=the_node,
    takes=UCX.own("dmabuf"),
    cost="UCX needs nvidia-peermem, or stages GPU memory through host memory.",
    references=("https://github.com/openucx/ucx/releases/tag/v1.14.0",),
)
def ucx_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """This UCX is from before dma-buf.

    Cost: The dma-buf path is closed for UCX.

    How to tell: A version below 1.14.

    What to do: UCX 1.14 or newer, in the image or environment that the job loads.

    Why: UCX registers dma-bufs from 1.14 on, if it was built with a verbs library that has the call.

    Source: Openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_md_check_dmabuf(), first at v1.14.0.
    """
    return too_old(node, UCX, "dmabuf")
