"""The IOMMU between NIC and GPU."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.driver_log import last_line_if_any
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.pci import gpus, iommu_group, iommu_type
from gdrkit.facts.rdma import Pair, RdmaDevice, hardware_pairs, nic_address, nics
from gdrkit.node import Node, if_absent
from gdrkit.rules.data_direct_missing import data_direct_functions
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import DMABUF, REGISTRATION, Failed, Layer, NotApplicable, Outcome, Passed, rule

FORCE_PCIE = "topology not supported for mapping type FORCE_PCIE"
"""open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c and nv-dmabuf.c, since 570.86.15."""


@rule(
    "iommu-translating",
    Layer.PCIE,
    per=nics,
    slows=REGISTRATION,
    reported_by=(DecidingCommand("cat /sys/kernel/iommu_groups/*/type", "DMA or DMA-FQ"),),
    remedies=(RemedyName.IOMMU_PASSTHROUGH,),
    cost="Every access of the NIC to GPU memory is translated, and goes through the root complex.",
    references=("https://docs.nvidia.com/cuda/gpudirect-rdma/#supported-systems",),
)
def iommu_translating(node: Node, device: RdmaDevice) -> Outcome:
    """The IOMMU translates what the NIC sends.

    Cost: Registration works, because nvidia.ko maps GPU memory for the NIC (DmaRemapPeerMmio: 1). But the
    addresses mean nothing to a switch, so that all traffic goes through the CPU. Where that is not possible,
    transfers fail.

    How to tell: /sys/kernel/iommu_groups/<group>/type of the NIC is DMA or DMA-FQ. identity is good, and so
    is no IOMMU at all.

    What to do: `iommu=pt` on the kernel's command line (with `intel_iommu=on` only where the IOMMU is
    needed), then reboot. It keeps the IOMMU for virtual machines.

    Why: The kernel's default, unless `iommu=pt` (x86) or `iommu.passthrough=1` (Arm) is on its command line.

    Source: Linux Documentation/ABI/testing/sysfs-kernel-iommu_groups; NVIDIA GPUDirect RDMA guide;
    open-gpu-kernel-modules kernel-open/nvidia/nv-dma.c.
    """
    try:
        kind = iommu_type(node, nic_address(node, device.name))
    except EvidenceAbsent:
        return Passed("no IOMMU before it")
    if kind.startswith("DMA"):
        return Failed(seen=f"IOMMU group of type {kind}", expected="identity", subject=device.name)
    if kind == "identity":
        return Passed("identity")
    return NotApplicable(f"IOMMU group of type {kind}: not in the hands of this kernel's drivers")


@rule(
    "iommu-groups-differ",
    Layer.PCIE,
    per=hardware_pairs,
    slows=(DMABUF,),
    reported_by=(DecidingCommand("rdma_topo check", "GPU and the NIC's DMA function in two groups"),),
    cost="A PCIe mapping of GPU memory is refused; traffic goes through the CPU's fabric.",
    references=("https://github.com/linux-rdma/rdma-core/blob/master/kernel-boot/rdma_topo",),
)
def iommu_groups_differ(node: Node, pair: Pair) -> Outcome:
    """GPU and NIC are in different IOMMU groups, and a PCIe mapping needs one.

    Cost: The ordinary mapping still works, at the speed of the CPU's fabric.

    How to tell: On GH200, GB200 or GB300 with ConnectX-8, no function 15b3:2100 shares the GPU's group. Or
    the kernel log says `NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE`,
    whatever the NIC: a program asked for such a mapping (perftest's --use_cuda_pcie_mapping does).

    What to do: `sudo rdma_topo check`; `sudo rdma_topo write-grub-acs`, `sudo update-grub`, reboot. The
    driver's GrdmaPciTopoCheckOverride lifts the test up to 590 only.

    Why: A coherent GPU maps its memory over PCIe, past the CPU, only for a device of its own IOMMU group.
    Which devices share one follows from the ACS bits of the switch that they hang on.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c; rdma-core kernel-boot/rdma_topo.
    """
    gpu = next(gpu for gpu in gpus(node) if gpu.address == pair.gpu)
    if not is_coherent(node, gpu):
        return NotApplicable("the GPU is not coherent with its CPU")
    addresses = [function.address for function in data_direct_functions(node)]
    if not addresses and last_line_if_any(node, FORCE_PCIE) is not None:
        addresses = [nic_address(node, pair.device)]  # somebody asked for such a mapping all the same
    if not addresses:
        return NotApplicable("no Data Direct function, and nobody asked for a PCIe mapping")
    group = _group(node, gpu.address)
    if not group:
        return NotApplicable("no IOMMU")
    groups = {address: _group(node, address) for address in addresses}
    if group in groups.values():
        return Passed(f"group {group}")
    others = ", ".join(f"{address} in {other or 'none'}" for address, other in groups.items())
    return Failed(
        seen=f"GPU in group {group}, {others}", expected="one group for GPU and NIC", subject=pair.gpu
    )


def _group(node: Node, address: str) -> str:
    """The IOMMU group of a function; empty without an IOMMU."""
    return if_absent("", iommu_group, node, address)
