"""GPU memory that the NVIDIA driver does not map for an EFA over PCIe."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.acs_layout import group
from gdrkit.facts.driver import driver_parameters, driver_version
from gdrkit.facts.driver_log import last_line_if_any
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.pci import gpu_at
from gdrkit.facts.rdma import Pair, hardware_pairs, nic_address, nics
from gdrkit.formats.versions import numbers
from gdrkit.messages import driver
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DMESG, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import DMABUF, EFA_P2P, Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.topology_refused import PARAMETER

FORCE_PCIE = driver.FORCE_PCIE.template
FIRST_WITH_MAPPING, FIRST_OF_TWO_VALUES = (570,), (580,)
"""The branches from which on the driver makes PCIe mappings, and from which on the value 2 of the option
refuses them: open-gpu-kernel-modules kernel-open/nvidia/nv-dmabuf.c."""
WITHOUT_OPTION = (595,)
"""The branch from which on no option maps for a device of another group, and whose release notes (595.91.07,
quoted in NVIDIA/aicr#2459) exclude EFA on AWS P6e. Of newer branches nothing is known."""


def is_efa(node: Node, device: str) -> bool:
    """Whether an RDMA device is an EFA."""
    return any(one.name == device and one.driver == "efa" for one in nics(node))


@rule(
    "efa-mapping-refused",
    Layer.DRIVER,
    per=hardware_pairs,
    takes=(DMABUF, EFA_P2P),
    reported_by=(DecidingCommand(DMESG, "`topology not supported for mapping type FORCE_PCIE`"),),
    remedies=(RemedyName.OVERRIDE_TOPOLOGY_CHECK, RemedyName.USE_DRIVER_580),
    cost="GPU memory is copied through host memory, or NCCL aborts: aws-ofi-nccl requires GPUDirect RDMA.",
    references=("https://docs.nvidia.com/datacenter/tesla/tesla-release-notes-595-91-07/index.html",),
)
def efa_mapping_refused(node: Node, pair: Pair) -> Outcome:
    """The NVIDIA driver does not map the memory of this coherent GPU for an EFA.

    Cost: Neither dma-buf nor EFA's own peer-to-peer works. On instances that must have GPUDirect RDMA, the
    plugin aws-ofi-nccl stops, and NCCL with it.

    How to tell: The instance is an AWS P6e (GB200 or GB300). The kernel log says
    `NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE`, and the job
    `NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR`. `cat /proc/driver/nvidia/version`
    shows the branch, and `grep GrdmaPciTopoCheckOverride /proc/driver/nvidia/params` the option.

    What to do: Stay on R580, or go back to it: `options nvidia NVreg_GrdmaPciTopoCheckOverride=1` maps
    there. R595 does not serve an EFA with these GPUs. ACS settings do not help, since an EFA has no IOMMU
    group.

    Why: A coherent GPU maps its memory over PCIe only for a device in its own IOMMU group. To R590, the
    option overrides that; R595 does not ask it for such a mapping, and later lacks it.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-dmabuf.c and nv-pci.c, 570.86.15 to 595.45.04;
    NVIDIA/aicr issue 2459, where R580 with the option measured 43 GB/s on P6e-GB300, and R595 failed.
    """
    gpu = gpu_at(node, pair.gpu)
    if gpu is None or not is_coherent(node, gpu):
        return NotApplicable("the GPU is not coherent with its CPU")
    if not is_efa(node, pair.device):
        return NotApplicable("the NIC is not an EFA")
    own, other = group(node, gpu.address), group(node, nic_address(node, pair.device))
    if own == other:
        return Passed(f"group {own}" if own else "no IOMMU")
    version = driver_version(node)
    branch = numbers(version)[:1]
    if branch < FIRST_WITH_MAPPING:
        return NotApplicable(f"driver {version} makes no PCIe mapping")
    seen = f"GPU in group {own or 'none'}, {pair.device} in {other or 'none'}, driver {version}"
    if branch < WITHOUT_OPTION:
        value = driver_parameters(node).get(PARAMETER, "0")
        if value == "1" or (branch < FIRST_OF_TWO_VALUES and value != "0"):
            return Passed(f"{PARAMETER} is {value}")
        return _failed(node, pair, f"{seen}, {PARAMETER} {value}", f"{PARAMETER} 1")
    if branch == WITHOUT_OPTION or last_line_if_any(node, FORCE_PCIE) is not None:
        return _failed(node, pair, seen, "a driver of the branch R580")
    raise EvidenceMissing(
        Missing(f"whether driver {version} maps for an EFA", MissingReason.UNDECIDED, "sudo dmesg")
    )


def _failed(node: Node, pair: Pair, seen: str, expected: str) -> Failed:
    if if_missing(None, last_line_if_any, node, FORCE_PCIE) is None:
        node.cite("NVIDIA/aicr#2459", text="measured on P6e", confidence=Confidence.LIKELY)
    return Failed(seen=seen, expected=expected, subject=f"{pair.gpu} {pair.device}")
