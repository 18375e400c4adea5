"""The IOMMU between NIC and GPU."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.driver_log import last_line_if_any
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.pci import gpu_at, gpus, iommu_group, iommu_type
from gdrkit.facts.rdma import Pair, RdmaDevice, hardware_pairs, nic_address, nics
from gdrkit.messages import driver
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.capabilities import REGISTRATION
from gdrkit.rules.data_direct_missing import data_direct_functions
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.gpu_passed_through import is_passed_through
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import DMABUF, Failed, Layer, NotApplicable, Outcome, Passed, rule

FORCE_PCIE = driver.FORCE_PCIE.template


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
    """The IOMMU translates the NIC's accesses to memory.

    Cost: Registration works, because nvidia.ko maps GPU memory for the NIC (DmaRemapPeerMmio: 1). But a
    switch cannot route the translated addresses, so all traffic goes through the CPU. Where that is not
    possible, transfers fail.

    How to tell: `readlink /sys/bus/pci/devices/<address>/iommu_group` ends with the group of the NIC, and
    `cat /sys/kernel/iommu_groups/<group>/type` prints DMA or DMA-FQ. The type identity is good, and so is a
    machine without an IOMMU.

    What to do: Add `iommu=pt` to the kernel command line (with `intel_iommu=on` only if the IOMMU is
    needed), then reboot. The IOMMU stays available for virtual machines.

    Why: It is the kernel's default, unless `iommu=pt` (x86) or `iommu.passthrough=1` (Arm) is on its
    command line.

    Source: Linux Documentation/ABI/testing/sysfs-kernel-iommu_groups; NVIDIA GPUDirect RDMA guide;
    open-gpu-kernel-modules kernel-open/nvidia/nv-dma.c.
    """
    try:
        kind = iommu_type(node, nic_address(node, device.name))
    except EvidenceAbsent:
        return Passed("the NIC is not behind an IOMMU")
    if kind.startswith("DMA"):
        if any(is_passed_through(node, gpu) for gpu in if_missing((), gpus, node)):
            return Passed(f"{kind}, as passing GPUs through to virtual machines requires")
        return Failed(seen=f"IOMMU group of type {kind}", expected="identity", subject=device.name)
    if kind == "identity":
        return Passed("identity")
    return NotApplicable(f"IOMMU group of type {kind}: this kernel's drivers do not use the device")


@rule(
    "iommu-groups-differ",
    Layer.PCIE,
    per=hardware_pairs,
    slows=(DMABUF,),
    reported_by=(DecidingCommand("rdma_topo check", "the GPU and the NIC's DMA function in two groups"),),
    cost="A PCIe mapping of GPU memory is refused; traffic goes through the CPU's fabric.",
    references=("https://github.com/linux-rdma/rdma-core/blob/master/kernel-boot/rdma_topo",),
)
def iommu_groups_differ(node: Node, pair: Pair) -> Outcome:
    """The GPU and the NIC are in different IOMMU groups, but a PCIe mapping needs both in one.

    Cost: The ordinary mapping still works, at the speed of the CPU's fabric.

    How to tell: On GH200, GB200 or GB300 with ConnectX-8, `sudo rdma_topo check` reports that no function
    15b3:2100 shares the GPU's group. Or, with any NIC, the kernel log says
    `NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE`: a program requested
    such a mapping (perftest's --use_cuda_pcie_mapping does).

    What to do: Run `sudo rdma_topo check`, then `sudo rdma_topo write-grub-acs` and `sudo update-grub`, and
    reboot. The driver's GrdmaPciTopoCheckOverride disables the check only up to 590.

    Why: A coherent GPU maps its memory over PCIe, past the CPU, only for a device in its own IOMMU group.
    The ACS bits of the switch above them decide which devices share a group.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c; rdma-core kernel-boot/rdma_topo.
    """
    gpu = gpu_at(node, pair.gpu)
    if gpu is None or not is_coherent(node, gpu):
        return NotApplicable("the GPU is not coherent with its CPU")
    addresses = [function.address for function in data_direct_functions(node)]
    if not addresses and last_line_if_any(node, FORCE_PCIE) is not None:
        addresses = [nic_address(node, pair.device)]  # a program requested such a mapping anyway
    if not addresses:
        return NotApplicable(
            "no Data Direct function, and no program is known to have requested a PCIe mapping"
        )
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
    """The IOMMU group of a function; "" without an IOMMU."""
    return if_absent("", iommu_group, node, address)
