"""A loaded nvidia-peermem that an NVSHMEM does not notice."""

from __future__ import annotations

from gdrkit.consumers.nvshmem import NVSHMEM
from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.formats.versions import numbers
from gdrkit.node import Node
from gdrkit.rules.consumer_versions import overlooks
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, Outcome, rule, the_node

LAST_READ_WITHOUT = (3, 2, 5)
"""Between this release and the first that was read with the third file, sources were not public."""


@rule(
    "nvshmem-misses-peermem",
    Layer.LIBRARY,
    per=the_node,
    takes=NVSHMEM.own("peermem"),
    reported_by=(
        DecidingCommand(
            "NVSHMEM_DEBUG=INFO, set for the job", "neither nv_peer_mem, or nvidia_peermem detected"
        ),
    ),
    cost="Without dma-buf NVSHMEM ends at its start, although nvidia-peermem works.",
    references=("https://github.com/deepseek-ai/DeepEP/pull/151",),
)
def nvshmem_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem is loaded and works, and this NVSHMEM does not notice it.

    Cost: The peermem path is closed for NVSHMEM, and with it for DeepEP before version 2; other programs use
    it.

    How to tell: `neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.` while nvidia_peermem
    is in /proc/modules, and a libnvshmem_host of 3.2.5 or older.

    What to do: NVSHMEM 3.4.5 or newer in the image or environment that the job loads. Or use dma-buf, which
    needs the open kernel modules: NVSHMEM then looks for no file.

    Why: Where it does not use dma-buf, NVSHMEM wants one of three files before it registers memory. Copies
    up to 3.2.5 know only the two below /sys/kernel/mm/memory_peers, a folder that newer kernels do not have.
    3.4.5 also accepts /sys/module/nvidia_peermem/version. What stands between the two was not read.

    Source: NVIDIA/nvshmem v3.4.5-0 src/modules/transport/common/transport_ib_common.cpp,
    nvshmemt_ib_common_nv_peer_mem_available().
    """
    outcome = overlooks(node, NVSHMEM)
    if isinstance(outcome, Failed):
        versions = [numbers(copy.version) for copy in NVSHMEM.copies(node)]
        blind = [version for version in versions if version < NVSHMEM.use("peermem").required_files[0].since]
        if all(version > LAST_READ_WITHOUT for version in blind):
            ask = "strings libnvshmem_host.so.3 nvshmem_transport_ibrc.so* | grep sys/module/nvidia_peermem"
            raise EvidenceMissing(Missing("what this NVSHMEM looks for", MissingReason.UNDECIDED, ask))
    return outcome
