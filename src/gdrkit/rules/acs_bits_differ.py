"""Ports whose ACS bits are not those that their layout needs."""

from __future__ import annotations

from gdrkit.facts.acs_layout import AcsLayout, LayoutNeeds, PortMask, group, layout_needs, masks_to_configure
from gdrkit.facts.pci_registers import acs
from gdrkit.facts.pci_text import ACS_BITS
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import ACS, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import DMABUF, Failed, Layer, NotApplicable, Outcome, Passed, rule

_WITHOUT_IOMMU = (
    "No IOMMU group is known, and the kernel sets these bits only if an IOMMU is in use: enable it in the "
    "firmware and remove arguments such as iommu.off from the kernel command line, then reboot."
)

_MEASURED = "Traffic goes through the CPU's fabric: 361 instead of 426 GB/s on GB300 in a public report."
"""NVIDIA/nodewright-packages#111, two nodes with four GPUs each, all_reduce_perf over RoCE."""


def ports_of_layout(node: Node) -> tuple[PortMask, ...]:
    """The ports of which the layout needs certain bits; () for an ordinary switch, or without one."""
    needs = layout_needs(node)
    return needs.ports if needs is not None else ()


@rule(
    "acs-bits-differ",
    Layer.PCIE,
    per=ports_of_layout,
    slows=(DMABUF,),
    reported_by=(
        DecidingCommand("sudo rdma_topo check", "FAIL  ACS for TYPE PORT has incorrect values"),
        DecidingCommand(ACS, "other bits at that port"),
    ),
    remedies=(RemedyName.SET_ACS_BITS,),
    cost="Traffic between GPU and NIC goes up to the CPU, or is refused.",
    references=(
        "https://github.com/linux-rdma/rdma-core/blob/master/kernel-boot/rdma_topo",
        "https://github.com/NVIDIA/nodewright-packages/pull/111",
    ),
)
def acs_bits_differ(node: Node, port: PortMask) -> Outcome:
    """A PCIe port does not have the ACS bits that this layout of GPUs and NICs needs.

    Cost: With Data Direct, GPU and NIC are then in two IOMMU groups, the driver refuses a PCIe mapping, and
    traffic takes the CPU's fabric. A public report of two GB300 nodes has an all-reduce of 361 GB/s with
    wrong bits and nvidia-peermem, and of 426 GB/s with right bits and dma-buf; the kernels differ too.

    How to tell: `sudo rdma_topo check` lists each port with its bits. A mask such as `xx110x1` is read from
    the right: Source Validation, Translation Blocking, Request Redirect, Completion Redirect, Upstream
    Forwarding, Egress Control, Direct Translated; 1 must be set, 0 must be clear, x is free.

    - Data Direct (GB300, GB200 with ConnectX-8): `xx110x1` above the NIC's second function, `xx101x1` above
      the GPU at the same switch, `xx111x0` at their root port.
    - GPU and NIC on root ports of a Grace or a Vera: `xx111x1`, on a Vera `xx101x1`.
    - GPU below the NIC's switch, on x86: `xx000x0`; where the NIC offers ATS, for virtual machines,
      `1x111x1` above the NIC and `xx111x1` elsewhere.
    - Every other port of these chips, and of the switch in a BlueField-3: as the kernel sets it, `xx111x1`,
      or `xx000x0` where the GPU is below the NIC's switch and the NIC offers no ATS.

    What to do: `sudo gdr fix --steps set-acs-bits` prints the kernel argument, `pci=config_acs=`, and where
    to put it. Only a boot changes IOMMU groups: bits that setpci writes come too late, and are lost at a
    reset. Turning ACS off everywhere breaks these layouts.

    Why: The bits of a port decide whether the switch forwards between its ports, and which devices share an
    IOMMU group. Where an IOMMU is in use, the kernel sets the bits that isolate devices at each port.

    Source: rdma-core kernel-boot/rdma_topo; Linux drivers/pci/pci.c, pci_enable_acs();
    NVIDIA/nodewright-packages#111.
    """
    register = acs(node, port.address)
    if register is None:
        return NotApplicable("the port has no ACS")
    wanted = port.corrected(register.control)
    if wanted == register.control:
        return Passed(f"0x{register.control:02x} = {port.mask}")
    needs = layout_needs(node)
    return Failed(
        seen=f"ACSCtl 0x{register.control:02x} ({register.control:07b})",
        expected=f"0x{wanted:02x} ({port.mask}): {_changes(register.control, wanted)}",
        subject=port.address,
        cost=_MEASURED if needs is not None and needs.layout is AcsLayout.DATA_DIRECT else "",
        advice=_advice(node, needs),
    )


def _advice(node: Node, needs: LayoutNeeds | None) -> str:
    """The kernel argument for all ports; "" where each needs what the kernel sets itself."""
    masks = masks_to_configure(node)
    if masks:
        devices = ";".join(f"{mask}@{address}" for address, mask in masks.items())
        return (
            f"Start the kernel with `pci=config_acs={devices}`, in quotation marks in GRUB's files. Kernels "
            "before 6.11 do not read it, and some before 6.15 configure the first device alone: "
            "`sudo dmesg | grep 'Configured ACS'` shows which."
        )
    if needs is not None and all(if_missing("?", group, node, gpu) == "" for _, gpu in needs.pairs):
        return _WITHOUT_IOMMU
    return ""


def _changes(control: int, wanted: int) -> str:
    """The bits to change, in lspci's words: SrcValid- ReqRedir+."""
    differ = control ^ wanted
    return " ".join(
        f"{name}{'+' if wanted & 1 << bit else '-'}"
        for bit, name in enumerate(ACS_BITS)
        if differ & 1 << bit
    )
