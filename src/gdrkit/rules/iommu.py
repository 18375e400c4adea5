"""The IOMMU between NIC and GPU."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.acs_layout import AcsLayout, LayoutNeeds, group, layout_needs
from gdrkit.facts.driver_log import last_line, last_line_if_any
from gdrkit.facts.gpu import is_coherent, is_integrated
from gdrkit.facts.passthrough import PASSTHROUGH, passthrough_argument, passthrough_costs_cuda
from gdrkit.facts.pci import gpu_at, gpus, iommu_type, numa_node
from gdrkit.facts.rdma import Pair, RdmaDevice, hardware_pairs, nic_address, nics
from gdrkit.node import Node, fact, if_missing
from gdrkit.rules.capabilities import REGISTRATION
from gdrkit.rules.data_direct_missing import data_direct_functions
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.efa_mapping_refused import FORCE_PCIE, is_efa
from gdrkit.rules.gpu_passed_through import is_passed_through
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import DMABUF, Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node


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
    possible, transfers fail. A GH200's or GB10's memory is reached through the CPU in either mode: there it
    is a note, and what the translation itself costs is not known.

    How to tell: `readlink /sys/bus/pci/devices/<address>/iommu_group` ends with the group of the NIC, and
    `cat /sys/kernel/iommu_groups/<group>/type` prints DMA or DMA-FQ. The type identity is good, and so is a
    machine without an IOMMU.

    What to do: On x86, add `iommu=pt` to the kernel command line (with `intel_iommu=on` only if the IOMMU is
    needed); on Arm, add `iommu.passthrough=1`. Then reboot. The IOMMU stays available for virtual machines.
    With GH200, GB200 or GB300 and a kernel before 6.11, leave it: there, no CUDA context can be created in
    passthrough mode. Until the reboot, `NCCL_P2P_DISABLE=1` helps where GPUs of one machine hang.

    Why: It is the kernel's default, unless `iommu=pt` (x86) or `iommu.passthrough=1` (Arm) is on its
    command line. Before Linux 6.11, Arm's SMMU cannot give a process' address space (PASID) to a device in
    passthrough mode, and a GPU that shares memory with its CPU needs that.

    Source: Linux Documentation/ABI/testing/sysfs-kernel-iommu_groups; NVIDIA GPUDirect RDMA guide;
    open-gpu-kernel-modules kernel-open/nvidia/nv-dma.c; NVIDIA/nodewright-packages#122, for Linux 6.11.
    """
    try:
        kind = iommu_type(node, nic_address(node, device.name))
    except EvidenceAbsent:
        return Passed("the NIC is not behind an IOMMU")
    if kind.startswith("DMA"):
        if any(is_passed_through(node, gpu) for gpu in if_missing((), gpus, node)):
            return Passed(f"{kind}, as passing GPUs through to virtual machines requires")
        if if_missing(False, passthrough_costs_cuda, node):
            return Passed(f"{kind}, which CUDA needs before Linux 6.11 on this GPU")
        if _is_reached_by_cpu(node):
            return Failed(
                seen=f"IOMMU group of type {kind}, as on any Arm server without a setting",
                expected="",
                subject=device.name,
                advice=f"Nothing, unless a measurement shows that `{PASSTHROUGH['aarch64']}` is faster.",
                as_expected=True,
            )
        return Failed(
            seen=f"IOMMU group of type {kind}",
            expected="identity",
            subject=device.name,
            advice=if_missing("", _advice, node),
        )
    if kind == "identity":
        return Passed("identity")
    return NotApplicable(f"IOMMU group of type {kind}: this kernel's drivers do not use the device")


@fact
def _is_reached_by_cpu(node: Node) -> bool:
    """Whether every GPU shares the CPU's memory or is coherent with it, and no Data Direct function and no
    program is known to ask for another mapping: NICs reach its memory as that of the CPU, whatever the IOMMU
    does.

    Raises EvidenceMissing where only the kernel log shows whether a program asks.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-dmabuf.c, which maps a coherent GPU's memory so
    unless a program asks for FORCE_PCIE."""
    if not if_missing(False, _are_of_the_cpu, node):
        return False
    return last_line(node, FORCE_PCIE) is None


def _are_of_the_cpu(node: Node) -> bool:
    found = gpus(node)
    near = all(is_integrated(node, gpu) or is_coherent(node, gpu) for gpu in found)
    return bool(found) and near and not data_direct_functions(node)


def _advice(node: Node) -> str:
    return f"Add `{passthrough_argument(node)}` to the kernel command line, then reboot."


WITHOUT_GROUP = "No ACS setting gives a NIC a group that has none."


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

    What to do: Set the ports' bits, which acs-bits-differ names, and reboot. Where they are right already,
    the kernel makes wrong groups of them: NVIDIA's guide asks for linux-nvidia-64k 6.14 or newer. The
    driver's GrdmaPciTopoCheckOverride disables the check only up to 590. 615.71.09 also maps without one
    below a common switch. An EFA has no group: see efa-mapping-refused.

    Why: A coherent GPU maps its memory over PCIe, past the CPU, only for a device in its own IOMMU group.
    The ACS bits of the switch above them decide which devices share a group.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c to 615.71.09; rdma-core
    kernel-boot/rdma_topo.
    """
    gpu = gpu_at(node, pair.gpu)
    needs = if_missing(None, layout_needs, node)
    if needs is not None and needs.layout is AcsLayout.INLINE:
        return _inline(node, pair, needs)
    if gpu is None or not is_coherent(node, gpu):
        return NotApplicable("the GPU is not coherent with its CPU")
    addresses = _mapping(node, pair, needs)
    if not addresses:
        return NotApplicable(
            "no Data Direct function, and no program is known to have requested a PCIe mapping"
        )
    own = group(node, gpu.address)
    if not own:
        return NotApplicable("no IOMMU")
    groups = {address: group(node, address) for address in addresses}
    if own in groups.values():
        return Passed(f"group {own}")
    if not any(groups.values()) and is_efa(node, pair.device):
        return NotApplicable("an EFA has no group: efa-mapping-refused")
    others = ", ".join(f"{address} in {other or 'none'}" for address, other in groups.items())
    return Failed(
        seen=f"GPU in group {own}, {others}",
        expected="one group for GPU and NIC",
        subject=pair.gpu,
        advice="" if any(groups.values()) else WITHOUT_GROUP,
    )


def _mapping(node: Node, pair: Pair, needs: LayoutNeeds | None) -> list[str]:
    """The addresses that may map the GPU's memory over PCIe: of the Data Direct functions, or else of the
    NIC if a program asked for such a mapping anyway."""
    is_asked = last_line_if_any(node, FORCE_PCIE) is not None
    if needs is not None and needs.layout is AcsLayout.DATA_DIRECT:
        found = [function for function, near in needs.pairs if near == pair.gpu]
    else:
        found = [function.address for function in data_direct_functions(node)]
    return found or ([nic_address(node, pair.device)] if is_asked else [])


def _inline(node: Node, pair: Pair, needs: LayoutNeeds) -> Outcome:
    """One group, or none: with their bits clear, all ports below the root port are in one."""
    nic = nic_address(node, pair.device)
    if (nic, pair.gpu) not in needs.pairs:
        return NotApplicable("the GPU is not below the switch of this NIC")
    own, other = group(node, pair.gpu), group(node, nic)
    if own == other:
        return Passed(f"group {own}" if own else "no IOMMU")
    return Failed(
        seen=f"GPU in group {own or 'none'}, {nic} in {other or 'none'}",
        expected="one group for GPU and NIC",
        subject=pair.gpu,
        cost="Traffic between the two goes up to the CPU, or fails.",
    )


@rule(
    "iommu-groups-shared",
    Layer.PCIE,
    per=the_node,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("sudo rdma_topo check", "devices without a group, or in the same one"),),
    cost="The IOMMU does not keep GPUs and NICs apart, as this layout needs it to.",
    references=("https://github.com/linux-rdma/rdma-core/blob/master/kernel-boot/rdma_topo",),
)
def iommu_groups_shared(node: Node, _: str) -> Outcome:
    """GPUs and NICs have no IOMMU groups, or share one, where each needs its own.

    Cost: rdma-core's check refuses the layout, and no device can be given to a virtual machine by itself.

    How to tell: `readlink /sys/bus/pci/devices/*/iommu_group` shows the same group for a GPU and a NIC below
    root ports of one Grace or Vera, or below the switch of a ConnectX that offers ATS; or no group at all.

    What to do: Set the ports' bits, which acs-bits-differ names, and reboot. Without any group, enable the
    IOMMU in the firmware, and remove arguments that turn it off.

    Why: Devices that the ports above them do not isolate from each other are in one group.

    Source: rdma-core kernel-boot/rdma_topo; Linux drivers/iommu/iommu.c, pci_device_group().
    """
    needs = layout_needs(node)
    if needs is None or needs.in_one_group:
        return NotApplicable("no layout in which each GPU and NIC needs a group of its own")
    parts = _by_numa_node(node, needs) if needs.layout is AcsLayout.NUMA else needs.pairs
    for addresses in parts:
        groups = {address: group(node, address) for address in addresses}
        if "" in groups.values() or len(set(groups.values())) < len(groups):
            seen = ", ".join(f"{address} in {found or 'none'}" for address, found in groups.items())
            return Failed(seen=f"IOMMU groups: {seen}", expected="a group for each", subject="node")
    return Passed(f"{len(parts)} sets of devices with groups of their own")


def _by_numa_node(node: Node, needs: LayoutNeeds) -> tuple[tuple[str, ...], ...]:
    """The GPUs and NICs of each NUMA node; those of a device whose node is not defined are left out."""
    found: dict[int, set[str]] = {}
    for address in sorted({address for pair in needs.pairs for address in pair}):
        number = numa_node(node, address)
        if number is not None:
            found.setdefault(number, set()).add(address)
    return tuple(tuple(sorted(found[number])) for number in sorted(found))
