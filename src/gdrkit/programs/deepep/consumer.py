"""DeepEP: version 1 on NVSHMEM's IBGDA, version 2 on NCCL's GIN. Both start transfers in GPU kernels.

It has no slower way between nodes: without them, its buffer cannot be created. Version 2 keeps the classes
of version 1, which are still on NVSHMEM; it is judged by its own. GIN's proxy is enough for it.
Source: deepseek-ai/DeepEP v1.2.1 and dd758ca (2.1.0): csrc/kernels/backend/nccl.cu, setup.py.
"""

from __future__ import annotations

from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.facts.wheels import LibraryCopy, wheels
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, fact, if_missing
from gdrkit.programs.consumer import Consumer, PathSupport
from gdrkit.programs.nccl_gin.consumer import NCCL_GIN
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.rules.capabilities import Path

FIRST_ON_GIN = (2,)
"""deepseek-ai/DeepEP b306af0, whose deep_ep/__init__.py has version 2.0.0."""


@fact
def deepep_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known DeepEP. Raises EvidenceAbsent if no Python environment has one."""
    return wheels(node, "DeepEP", "deep_ep", "deep_ep")


def engine(node: Node) -> Consumer | None:
    """What starts the transfers of the DeepEP that is installed; None if that is not known, or differs."""
    copies = if_missing((), deepep_copies, node)
    for copy in copies:
        cite_if_newer(node, "DeepEP", copy.version)
    on_gin = {numbers(copy.version) >= FIRST_ON_GIN for copy in copies}
    return {frozenset({True}): NCCL_GIN, frozenset({False}): NVSHMEM}.get(frozenset(on_gin))


DEEPEP = Consumer(
    name="deepep",
    title="DeepEP",
    copies=deepep_copies,
    engine=engine,
    initiates="IBGDA or GIN",
    without="raises an exception when its buffer is created",
    mapped=r"/deep_ep_cpp\.|/deep_ep/_C\.",
    uses=(
        PathSupport(path=Path.DMABUF),
        PathSupport(path=Path.PEERMEM),
        PathSupport(path=Path.GPU_INITIATED),
        PathSupport(path=Path.CPU_ASSISTED),
    ),
)
