"""Copies of a program that are too old for a path, or too old to detect it."""

from __future__ import annotations

from msgspec.structs import replace

from gdrkit.consumers.consumer import Consumer
from gdrkit.consumers.nccl import NCCL
from gdrkit.consumers.nccl_releases import first_release_with
from gdrkit.consumers.ucx import UCX
from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.peer_memory import MEMORY_PEERS, memory_peers
from gdrkit.facts.wheels import LibraryCopy, certain_of
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_absent
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.legacy_nv_peer_mem import serving_client
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule, the_node

NCCL_VERSION = "NCCL_DEBUG=VERSION, set for the job"


def version_too_old(node: Node, consumer: Consumer, path: str) -> Outcome:
    """Failed if copies of a program are older than the release that added a path."""
    name, since = consumer.title, consumer.use(path).since
    try:
        copies = consumer.copies(node)
    except EvidenceMissing:
        return NotApplicable(f"no {name} was found; {consumer.assumed} is assumed")
    old = certain_of(copies, tuple(copy for copy in copies if numbers(copy.version) < since))
    if not old:
        return Passed(f"{name} {_oldest(copies, since)} supports it")
    return _failed(consumer, old[0], copies, old, "", since)


def does_not_detect(node: Node, consumer: Consumer) -> Outcome:
    """Failed if copies of a program look for files that do not exist, although nvidia-peermem is loaded, or
    nv_peer_mem, which fewer programs look for."""
    client = PEERMEM if is_loaded(node, PEERMEM) else serving_client(node)
    if not client:
        return NotApplicable("nvidia_peermem is not loaded")
    required = consumer.use("peermem").required_files
    if _one_exists(node, required[-1].files, client):
        return Passed(f"every {consumer.title} finds it in memory_peers")
    try:
        copies = consumer.copies(node)
    except EvidenceAbsent:
        return NotApplicable(f"{consumer.title} is not installed")
    finds = tuple(
        copy for copy in copies if _one_exists(node, consumer.files_wanted("peermem", copy.version), client)
    )
    affected = certain_of(copies, tuple(copy for copy in copies if copy not in finds))
    if not affected:
        return Passed(f"{consumer.title} {_oldest(finds)} finds it")
    oldest = min(affected, key=lambda copy: numbers(copy.version))
    files = ", ".join(consumer.files_wanted("peermem", oldest.version))
    found = _failed(consumer, oldest, copies, affected, f" finds none of {files}", required[0].since)
    if _one_exists(node, required[0].files, client):
        return found
    return replace(found, expected=f"{PEERMEM} instead of {client}", advice=_INSTEAD)


def _oldest(copies: tuple[LibraryCopy, ...], since: tuple[int, ...] = ()) -> str:
    """The oldest version from one on."""
    return min((copy.version for copy in copies if numbers(copy.version) >= since), key=numbers)


def _failed(
    consumer: Consumer,
    copy: LibraryCopy,
    copies: tuple[LibraryCopy, ...],
    affected: tuple[LibraryCopy, ...],
    detail: str,
    since: tuple[int, ...],
) -> Failed:
    """The failure. It takes the path away only if every copy is affected: a job may load any of them."""
    which = f"{consumer.title} {copy.version}"
    return Failed(
        seen=which + (f" ({copy.source})" if copy.source else "") + detail,
        expected=f"{consumer.title} {'.'.join(map(str, since))} or newer",
        subject=copy.source or which,
        takes=None if len(affected) == len(copies) else (),
    )


_INSTEAD = (
    "No version looks for nv_peer_mem itself. Run `sudo systemctl disable --now nv_peer_mem`, `sudo rmmod "
    "nv_peer_mem` and `sudo modprobe nvidia-peermem`, or use dma-buf and neither module."
)


def _one_exists(node: Node, files: tuple[str, ...], client: str) -> bool:
    if f"sys/module/{client}/version" in files:
        return True  # it is loaded
    clients = if_absent((), memory_peers, node)
    return any(f"{MEMORY_PEERS}/{peer.client}/version" in files for peer in clients)


@rule(
    "nccl-misses-peermem",
    Layer.LIBRARY,
    per=the_node,
    takes=NCCL.own("peermem"),
    reported_by=(
        DecidingCommand(
            NCCL_VERSION,
            f"a version before {first_release_with('sees_module')}, while nvidia_peermem is loaded",
        ),
    ),
    remedies=(RemedyName.UPGRADE_NCCL, RemedyName.REMOVE_NV_PEER_MEM),
    cost="NCCL copies through host memory, although nvidia-peermem works: 10, not 180 GB/s, in one report.",
    references=("https://github.com/NVIDIA/nccl/issues/1676",),
)
def nccl_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem or nv_peer_mem is loaded and works, but this NCCL does not detect it.

    Cost: The peermem path is closed for NCCL alone; verbs programs can use it.

    How to tell: NCCL logs `GPU Direct RDMA Disabled for HCA` although nvidia_peermem is in /proc/modules
    and `ib_write_bw --use_cuda` succeeds. None of the files that this NCCL version looks for exists.
    `NCCL_DEBUG=VERSION`, set for the job, prints the version.

    What to do: Use NCCL 2.23.4 or newer. Check the copy that the job loads: in containers and Python wheels
    it is not the system's. Or use dma-buf.

    Why: Before 2.23.4, NCCL looks only in /sys/kernel/mm/memory_peers. Whether the RDMA core creates that
    folder depends on the kernel and OFED: it needs the kernel symbol mm_kobj, which newer kernels do not
    export. From 2.23.4 on, NCCL also accepts /sys/module/nvidia_peermem, but not /sys/module/nv_peer_mem:
    replace nv_peer_mem there.

    Source: NCCL src/transport/net_ib.cc, ncclIbGdrSupport(), at the tags from 2.4 to 2.30.
    """
    return does_not_detect(node, NCCL)


@rule(
    "nccl-lacks-dmabuf",
    Layer.LIBRARY,
    per=the_node,
    takes=NCCL.own("dmabuf"),
    reported_by=(DecidingCommand(NCCL_VERSION, f"a version before {first_release_with('has_dmabuf')}"),),
    remedies=(RemedyName.UPGRADE_NCCL,),
    cost="NCCL needs nvidia-peermem, or copies through host memory.",
    references=("https://docs.nvidia.com/deeplearning/nccl/release-notes/",),
)
def nccl_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """This NCCL is older than NCCL's dma-buf support.

    Cost: The dma-buf path is closed for NCCL.

    How to tell: The version, which `NCCL_DEBUG=VERSION` prints if set for the job, is below 2.13.4. The log
    never says `DMA-BUF is available on GPU device`.

    What to do: Install NCCL 2.13.4 or newer in the image or environment that the job loads.

    Why: NCCL can register dma-bufs since 2.13.4. It must also be built with CUDA 11.7 or newer, which
    cannot be seen from outside.

    Source: NCCL src/init.cc, dmaBufSupported(), first in v2.13.4-1.
    """
    return version_too_old(node, NCCL, "dmabuf")


@rule(
    "ucx-misses-peermem",
    Layer.LIBRARY,
    per=the_node,
    takes=UCX.own("peermem"),
    reported_by=(DecidingCommand("ucx_info -v", "a version before 1.18, on a kernel without memory_peers"),),
    remedies=(RemedyName.UPGRADE_UCX,),
    cost="UCX stages GPU memory through host memory although nvidia-peermem works.",
    references=("https://github.com/openucx/ucx/blob/master/src/uct/ib/base/ib_md.c",),
)
def ucx_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem or nv_peer_mem is loaded and works, but this UCX does not detect it.

    Cost: The peermem path is closed for UCX alone.

    How to tell: `ucx_info -v` prints a version below 1.18, nvidia_peermem is loaded, and the file
    /sys/kernel/mm/memory_peers/nv_mem/version does not exist.

    What to do: Use UCX 1.18 or newer (also in HPC-X and in images), or dma-buf, which UCX supports from
    1.14 on.

    Why: Up to 1.17, UCX accepts only that file, and not every kernel with the peer-memory API has it. From
    1.18 on, /sys/module/nvidia_peermem/version counts as well.

    Source: openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_check_gpudirect_driver() and its callers, at the
    tags from 1.5 to 1.20.
    """
    return does_not_detect(node, UCX)


@rule(
    "ucx-lacks-dmabuf",
    Layer.LIBRARY,
    per=the_node,
    takes=UCX.own("dmabuf"),
    reported_by=(DecidingCommand("ucx_info -v", "a version before 1.14"),),
    remedies=(RemedyName.UPGRADE_UCX,),
    cost="UCX needs nvidia-peermem, or stages GPU memory through host memory.",
    references=("https://github.com/openucx/ucx/releases/tag/v1.14.0",),
)
def ucx_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """This UCX is older than UCX's dma-buf support.

    Cost: The dma-buf path is closed for UCX.

    How to tell: `ucx_info -v` prints a version below 1.14.

    What to do: Install UCX 1.14 or newer in the image or environment that the job loads.

    Why: UCX can register dma-bufs since 1.14, if it was built with a verbs library that has the call.

    Source: openucx/ucx src/uct/ib/base/ib_md.c, uct_ib_md_check_dmabuf(), first at v1.14.0.
    """
    return version_too_old(node, UCX, "dmabuf")
