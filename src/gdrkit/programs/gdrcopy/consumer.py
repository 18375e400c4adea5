"""GDRCopy: the CPU maps GPU memory with the module gdrdrv, and copies a few bytes faster than CUDA does.

It is not a path to the network: UCX and libfabric use it for short messages, and go on without it.
"""

from __future__ import annotations

from gdrkit.programs.consumer import Consumer, PathSupport
from gdrkit.programs.gdrcopy.facts import gdrcopy_copies
from gdrkit.rules.capabilities import Path

GDRCOPY = Consumer(
    name="gdrcopy",
    title="GDRCopy",
    copies=gdrcopy_copies,
    without="cannot be opened: UCX, libfabric and NVSHMEM on InfiniBand go on without it; NVSHMEM on EFA and"
    " GIN on EFA stop",
    mapped=r"/libgdrapi\.",
    uses=(PathSupport(path=Path.CPU_MAPPED),),
)
