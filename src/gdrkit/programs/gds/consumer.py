"""GPUDirect Storage: cuFile reads files into GPU memory, and writes them from it. It is not about a network.

Which of two ways it takes depends on its configuration; without both it copies through host memory.
"""

from __future__ import annotations

from gdrkit.programs.consumer import Consumer, PathSupport
from gdrkit.programs.gds.facts import cufile_copies
from gdrkit.rules.capabilities import Path

GDS = Consumer(
    name="gds",
    title="GPUDirect Storage",
    copies=cufile_copies,
    without="copies files through host memory without a message, unless allow_compat_mode is false",
    uses=(PathSupport(path=Path.NVIDIA_FS), PathSupport(path=Path.P2PDMA)),
)
