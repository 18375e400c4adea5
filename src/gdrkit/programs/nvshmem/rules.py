"""NVSHMEM versions that do not detect a loaded nvidia-peermem."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import driver_flavour
from gdrkit.facts.gpu import gpu_support
from gdrkit.facts.pci import gpus
from gdrkit.formats.versions import numbers
from gdrkit.node import Node
from gdrkit.programs.environment import SYSTEM, environment
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.programs.old_copies import does_not_detect
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, rule, the_node

LAST_READ_WITHOUT = (3, 2, 5)
"""The newest release known not to look for the third file. Those up to the first that is known to look for
it were not examined."""

SWITCH = NVSHMEM.switches[0]


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
    remedies=(RemedyName.UPGRADE_NVSHMEM,),
    cost="Without dma-buf, NVSHMEM stops at startup although nvidia-peermem works.",
    references=("https://github.com/deepseek-ai/DeepEP/pull/151",),
)
def nvshmem_misses_peermem(node: Node, _: str) -> Outcome:
    """nvidia-peermem or nv_peer_mem is loaded and works, but this NVSHMEM does not detect it.

    Cost: The peermem path is closed for NVSHMEM and for DeepEP before version 2, which uses NVSHMEM. Other
    programs can use it.

    How to tell: NVSHMEM prints `neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.`
    although nvidia_peermem is in /proc/modules, and libnvshmem_host is version 3.2.5 or older. The driver is
    the proprietary one, the GPU is older than Turing, or the job sets NVSHMEM_IB_DISABLE_DMABUF.

    What to do: Use NVSHMEM 3.3.9 or newer in the image or environment that the job loads. Or use dma-buf,
    which needs the open kernel modules: NVSHMEM then looks for no file.

    Why: If the GPU does not offer dma-buf (CUDA attribute 124), or a setting forbids it, NVSHMEM requires
    one of three files before it registers memory. If the GPU offers it, NVSHMEM looks for none of them, and
    registers memory by its address where the NIC refuses a dma-buf. Versions up to 3.2.5 know only the two
    files below /sys/kernel/mm/memory_peers, a folder that newer kernels do not have. 3.3.9 also accepts
    /sys/module/nvidia_peermem/version. The versions between 3.2.5 and 3.3.9 were not examined.

    Source: NVIDIA/nvshmem v3.4.5-0 src/modules/transport/common/transport_ib_common.cpp,
    nvshmemt_ib_common_nv_peer_mem_available() and nvshmemt_ib_common_reg_mem_handle(), and ibrc/ibrc.cpp and
    ibdevx/ibdevx.cpp, nvshmemt_init(); the strings of nvshmem_transport_ibrc.so.3 in PyPI's
    nvidia-nvshmem-cu12 3.3.9, 3.3.24 and 3.4.5.
    """
    outcome = does_not_detect(node, NVSHMEM)
    if isinstance(outcome, Failed):
        if _takes_dmabuf(node):
            return NotApplicable("the GPU offers dma-buf, so NVSHMEM looks for no file")
        versions = [numbers(copy.version) for copy in NVSHMEM.copies(node)]
        affected = [
            version for version in versions if version < NVSHMEM.use("peermem").required_files[0].since
        ]
        if affected and all(version > LAST_READ_WITHOUT for version in affected):
            ask = "strings libnvshmem_host.so.3 nvshmem_transport_ibrc.so* | grep sys/module/nvidia_peermem"
            raise EvidenceMissing(Missing("what this NVSHMEM looks for", MissingReason.UNDECIDED, ask))
    return outcome


def _takes_dmabuf(node: Node) -> bool:
    """Whether NVSHMEM relies on dma-buf: if CUDA offers it for a GPU. It does not ask the NIC."""
    if driver_flavour(node) != "open":
        return False
    supports = [gpu_support(node, gpu, "dmabuf") for gpu in gpus(node)]
    if not any(support.state == "yes" for support in supports):
        for support in supports:
            if support.state == "unknown":
                raise EvidenceMissing(support.lacking[0])
        return False
    setting = environment(node, SYSTEM).get(SWITCH.name)
    return setting is None or not SWITCH.off(setting.value)
