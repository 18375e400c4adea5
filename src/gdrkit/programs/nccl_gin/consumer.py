"""GIN, NCCL's interface for transfers that GPU kernels start: by GDAKI, or by a proxy thread of the CPU.

It registers memory of cuMemCreate, and by itself: unlike NCCL's own transport, it tries nvidia-peermem after
a dma-buf that was refused. The proxy needs neither the doorbell nor queues in GPU memory.
"""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent, Missing, MissingReason
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.versions import numbers
from gdrkit.formats.whole_number import integer
from gdrkit.node import Node
from gdrkit.programs.consumer import Consumer, PathSupport, Switch
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.releases import NEWEST, first_release_with, release
from gdrkit.rules.capabilities import DIRECT, Capability, Path

FIRST = numbers(first_release_with("has_gin"))


def copies(node: Node) -> tuple[LibraryCopy, ...]:
    """The copies of NCCL that include GIN."""
    found = tuple(copy for copy in NCCL.copies(node) if release(copy.version).has_gin)
    if not found:
        raise EvidenceAbsent(Missing("an NCCL with GIN", MissingReason.ABSENT, "NCCL_DEBUG=VERSION"))
    return found


NCCL_GIN = Consumer(
    name="nccl-gin",
    title="NCCL's GIN",
    copies=copies,
    assumed=NEWEST,
    initiates="GIN",
    without="is not offered, so that a program which needs it stops; NCCL's own collectives do not need it",
    uses=(
        PathSupport(path=Path.DMABUF, since=FIRST, also=(Capability.VMM,)),
        PathSupport(path=Path.PEERMEM, since=FIRST, also=(Capability.VMM,)),
        PathSupport(path=Path.GPU_INITIATED, since=FIRST, also=(Capability.VMM,)),
        PathSupport(path=Path.CPU_ASSISTED, since=FIRST, also=(Capability.VMM,)),
    ),
    switches=(
        Switch(
            name="NCCL_IB_DISABLE",
            closes=DIRECT,
            off=lambda value: integer(value) not in (None, 0),
            network=True,
            source="src/transport/net_ib/gin.cc, ncclGinIbInit(), by ncclIbInitDevices() of init.cc",
        ),
        Switch(
            name="NCCL_GIN_TYPE",
            closes=(Path.GPU_INITIATED,),
            off=lambda value: integer(value) == 2,
            source="src/plugin/gin.cc; 2 is the proxy",
        ),
        Switch(
            name="NCCL_GIN_GDAKI_NIC_HANDLER",
            closes=(Path.GPU_INITIATED,),
            off=lambda value: integer(value) == 1,
            source="src/transport/net_ib/gdaki; doca_gpunetio_verbs_def.h, 1 is the CPU proxy",
        ),
    ),
)
