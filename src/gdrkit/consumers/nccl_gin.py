"""GIN, NCCL's interface for transfers that GPU kernels start: by GDAKI, or by a proxy thread of the CPU.

It registers memory by itself: unlike NCCL's own transport, it tries nvidia-peermem after a dma-buf that was
refused. The proxy needs neither the doorbell nor queues in GPU memory.
"""

from __future__ import annotations

from gdrkit.consumers.consumer import Consumer, Path, PathSupport
from gdrkit.consumers.nccl import NCCL
from gdrkit.consumers.nccl_releases import NEWEST, first_release_with, release
from gdrkit.evidence import EvidenceAbsent, Missing, MissingReason
from gdrkit.facts.libraries import LibraryCopy
from gdrkit.formats.versions import numbers
from gdrkit.node import Node

FIRST = numbers(first_release_with("has_gin"))


def copies(node: Node) -> tuple[LibraryCopy, ...]:
    """The copies of NCCL that have it."""
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
        PathSupport(path=Path.DMABUF, since=FIRST),
        PathSupport(path=Path.PEERMEM, since=FIRST),
        PathSupport(path=Path.GPU_INITIATED, since=FIRST),
        PathSupport(path=Path.CPU_ASSISTED, since=FIRST),
    ),
)
