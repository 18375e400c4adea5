"""DeepEP: version 1 on NVSHMEM's IBGDA, version 2 on NCCL's GIN. Both start transfers in GPU kernels.

It has no slower way between nodes: without them, its buffer cannot be created.
"""

from __future__ import annotations

from gdrkit.consumers.consumer import Consumer, Path, PathSupport
from gdrkit.facts.libraries import deepep_copies

DEEPEP = Consumer(
    name="deepep",
    title="DeepEP",
    copies=deepep_copies,
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
