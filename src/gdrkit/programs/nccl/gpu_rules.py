"""Rules about NCCL with a GPU."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing, Missing
from gdrkit.facts.gpu import is_consumer
from gdrkit.facts.gpu_chips import compute_capability
from gdrkit.facts.nvlink import has_nvlink
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import hardware_pairs
from gdrkit.facts.wheels import LibraryCopy, certain_of
from gdrkit.node import Node, if_missing
from gdrkit.programs.environment import nccl_sources
from gdrkit.programs.job_settings import settings_of
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.releases import AMPERE, NEWEST, changing, release
from gdrkit.programs.nccl.setting_rules import READ
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import CauseTrait, Failed, Layer, NotApplicable, Outcome, Passed, Status, rule

SINCE = changing("reads_need_nvlink")[0].since
"""The release from which on Ampere and newer GPUs need no NVLink."""


@rule(
    "send-needs-nvlink",
    Layer.LIBRARY,
    per=gpus,
    direction="send",
    traits=(CauseTrait.NVIDIA_ONLY,),
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("nvidia-smi topo -m", "no NV1 to NV18 between GPUs"),),
    cost="Jobs with several GPUs on this node send through host memory; what they receive is direct.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net-gdr-read",),
)
def send_needs_nvlink(node: Node, gpu: PciGpu) -> Outcome:
    """NCCL does not let NICs read this GPU's memory, so a job with several GPUs on the node sends through
    host memory.

    Cost: Half of the traffic is copied. A job with one GPU on the node is not affected, nor are other
    programs.

    How to tell: `nvidia-smi topo -m` shows no NV1 to NV18 between GPUs. The GPU is older than Ampere
    (compute capability below 8.0), or NCCL is 2.18 or older. In the job's log, channel lines say
    `[receive] via NET/IB/0/GDRDMA`, but `[send] via NET/IB/0` without GDRDMA.

    What to do: On Ampere and newer, use NCCL 2.19.1 or newer. On older GPUs, set NCCL_NET_GDR_READ=1 for the
    job, which forces it on, and measure: reading can be slower than the copy there.

    Why: On PCIe machines from before Ampere, reads by a NIC slow down when other data crosses the same PCIe
    links. NCCL therefore allows them only where NVLink carries the traffic between GPUs, or where the job
    has one GPU on the node; up to 2.18 on every GPU, later only before Ampere.

    Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(), at 2.18.6, 2.19.4 and 2.30.
    """
    if if_missing(False, lambda: not hardware_pairs(node)):
        return NotApplicable("no NIC")
    counted = [other for other in gpus(node) if not if_missing(False, is_consumer, node, other)]
    if gpu not in counted or len(counted) == 1:
        return NotApplicable("no other GPU for the same job")
    old = compute_capability(node, gpu) < AMPERE
    lacking: tuple[Missing, ...] = ()
    copies: tuple[LibraryCopy, ...] = ()
    try:
        copies = NCCL.copies(node)
    except EvidenceMissing as error:
        node.cite(f"{NCCL.title} {NEWEST}", confidence=Confidence.ASSUMED)
        lacking = (error.missing,)
    refusing = certain_of(copies, tuple(c for c in copies if release(c.version).reads_need_nvlink))
    if not old and not refusing:
        return Passed(f"{NCCL.title} lets NICs read the memory of this GPU since {SINCE}", lacking)
    if has_nvlink(node, gpu):
        return Passed("NVLink connects it to another GPU")
    for source in nccl_sources(node):
        if setting := settings_of(node, source).get(READ.name):
            return NotApplicable(f"{setting.name}={setting.value} decides")
    node.cite("the job's GPUs on this node", text="taken for several", confidence=Confidence.LIKELY)
    why = "older than Ampere" if old else f"{NCCL.title} {refusing[0].version}"
    return Failed(
        seen=f"{len(counted)} GPUs without NVLink, {why}",
        expected="NVLink, or Ampere and newer" if old else f"{NCCL.title} {SINCE} or newer, or NVLink",
        subject=gpu.address,
    )
