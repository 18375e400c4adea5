"""NCCL's GIN: what NCCL itself needs to let GPU kernels start transfers."""

from __future__ import annotations

from msgspec.structs import replace

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.libraries import nccl_is_installed
from gdrkit.node import Node, if_missing
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.log import logs, nccl_log
from gdrkit.programs.nccl.releases import release
from gdrkit.programs.nccl_gin.consumer import NCCL_GIN
from gdrkit.programs.old_copies import version_too_old
from gdrkit.rules.capabilities import INITIATED
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    SHOWN_BY_MESSAGES,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    rule,
    the_node,
)

_DEVICE_API = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/deviceapi.html"
_NCCL_LOG = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET, set for the job"


@rule(
    "gin-unavailable",
    Layer.APPLICATION,
    per=the_node,
    takes=NCCL_GIN.own(*NCCL_GIN.paths),
    remedies=(RemedyName.UPGRADE_NCCL,),
    reported_by=(DecidingCommand(_NCCL_LOG, "a line with GIN that has the reason"),),
    cost="Programs that need GIN stop; NCCL's own collectives do not need it.",
    references=(_DEVICE_API,),
)
def gin_unavailable(node: Node, _: str) -> Outcome:
    """NCCL offers no GIN, so GPU kernels cannot send by themselves.

    Cost: DeepEP from version 2 on and other users of NCCL's device API stop.

    How to tell: A program says that GIN is unavailable or unsupported, or NCCL is older than 2.28.7. NCCL's
    log with NCCL_DEBUG=INFO has the reason in its lines with `GIN`.

    What to do: Install NCCL 2.28.7 or newer. Else follow the reason: no peer memory, different settings
    among the ranks, NICs that NCCL joined (gin-nics-fused), or a network plugin without GIN.

    Why: NCCL's GIN needs registrable GPU memory on every rank, the same type everywhere, and each NIC in
    reach of each other.

    Source: NVIDIA/nccl src/plugin/gin.cc, and src/dev_runtime.cc.
    """
    if not if_missing((), NCCL.copies, node):
        nccl_is_installed(node)  # raises if that is not known: unlike dma-buf, many installations lack GIN
    return version_too_old(node, replace(NCCL_GIN, title=NCCL.title, copies=NCCL.copies), "dmabuf")


@rule(
    "gin-nics-fused",
    Layer.APPLICATION,
    per=logs,
    takes=NCCL_GIN.own(*INITIATED),
    reported_by=(DecidingCommand(_NCCL_LOG, "Made virtual device, with ndevs=2"),),
    cost="GIN is off, or reaches only the NICs of the same rail.",
    references=(_DEVICE_API,),
)
def gin_nics_fused(node: Node, path: str) -> Outcome:
    """NCCL joined two ports into one network device, with which NCCL's GIN does not work.

    Cost: DeepEP from version 2 on and other users of GIN stop, or reach a part of the ranks.

    How to tell: NCCL prints `Made virtual device` with `ndevs=2`, or the program asks for a connection to
    all NICs and gets one along the rail.

    What to do: Set NCCL_IB_MERGE_NICS=0, and leave NCCL_CROSS_NIC unset.

    Why: NCCL joins the ports of one NIC by default. GIN needs one device for each connection.

    Source: NVIDIA/nccl src/graph/topo.cc, src/dev_runtime.cc; deepseek-ai/DeepEP issue 628.
    """
    try:
        log = nccl_log(node, path)
    except EvidenceMissing:
        return NotApplicable("not an NCCL log")
    if log.version and not release(log.version).has_gin:
        return NotApplicable(f"NCCL {log.version} has no GIN")
    from gdrkit.programs.nccl.log_records import FusedDevice

    fused = next((found for found in log.all(FusedDevice) if found.record.parts > 1), None)
    if fused is None:
        return NotApplicable("the log does not show NICs that NCCL joined")
    node.cite(path, text="whether the program needs GIN is not shown", confidence=Confidence.LIKELY)
    return Failed(
        seen=f"{fused.record.name}, of {fused.record.parts} ports",
        expected="NCCL_IB_MERGE_NICS=0",
        subject=node.describe_line(path, fused.line),
    )


@rule(
    "gin-library-mismatch",
    Layer.LIBRARY,
    per=the_node,
    reported_by=(DecidingCommand("grep -h libnccl /proc/PID/maps", "two files, or another version"),),
    cost="The program stops when it starts.",
    references=(_DEVICE_API,),
)
def gin_library_mismatch(node: Node, _: str) -> Outcome:
    """The program was built with another NCCL than the one that it loads.

    Cost: DeepEP and other users of NCCL's device API stop. Direct paths are not the cause.

    How to tell: The message names both versions, or two files of libnccl. /proc/PID/maps lists what is
    loaded.

    What to do: Build again with the NCCL that runs, or remove the second libnccl from LD_LIBRARY_PATH,
    LD_PRELOAD and the Python environment.

    Why: Code on the GPU includes structures of NCCL, which changed between releases up to 2.31.

    Source: deepseek-ai/DeepEP csrc/kernels/backend/nccl.cu; NVIDIA/nccl src/devcomm.
    """
    return SHOWN_BY_MESSAGES
