"""Ports that send peer traffic up to the root complex."""

from __future__ import annotations

from gdrkit.facts.acs_layout import layout_needs
from gdrkit.facts.pci_registers import acs, ats_enabled
from gdrkit.facts.rdma import Pair, below_common_bridge, hardware_pairs, nic_address
from gdrkit.facts.virtual import virtual_machine
from gdrkit.node import Node, if_missing, seek
from gdrkit.rules.capabilities import REGISTRATION
from gdrkit.rules.deciding_command import ACS, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "acs-redirect",
    Layer.PCIE,
    per=hardware_pairs,
    slows=REGISTRATION,
    reported_by=(DecidingCommand(ACS, "ReqRedir+ on a bridge above the GPU or the NIC"),),
    remedies=(RemedyName.CLEAR_ACS_REDIRECT,),
    cost="Traffic that could stay in the switch goes up to the CPU and back down, at a fraction of the "
    "speed; with an IOMMU it may fail or hang.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
)
def acs_redirect(node: Node, pair: Pair) -> Outcome:
    """A PCIe port between the GPU and the NIC redirects peer-to-peer requests to the root complex.

    Cost: Every byte crosses the switch's uplink twice.

    How to tell: `sudo lspci -vvv` shows `ACSCtl: ... ReqRedir+` or `CmpltRedir+` for a port below the
    switch that the GPU and the NIC share. Ports above that switch do not matter, and neither do pairs
    without a common switch: their traffic goes through the CPU anyway. Only root can read these registers;
    without root, the result is unknown. The ports that a virtual machine shows are its hypervisor's,
    and decide nothing: those of the host do.

    What to do: On bare metal, turn ACS off in the firmware setup, or clear the bits that redirect:
    `sudo gdr fix --steps clear-acs-redirect` prints the commands that clear them at each port between GPU
    and NIC, and again at each boot. In virtual machines, keep ACS on and use ATS with Direct Translated.
    Where GPU and NIC are below the switch of a ConnectX, or on a Grace or Vera, certain bits must be set:
    there, acs-bits-differ judges the ports, and this rule does not.

    Why: Access Control Services (ACS) isolate devices from each other for virtual machines. Firmware or the
    kernel turns them on together with the IOMMU.

    Source: PCI Express Base Specification 5.0, 6.12 and 7.7.8; NCCL User Guide, Troubleshooting; rdma-core
    kernel-boot/rdma_topo.
    """
    nic = nic_address(node, pair.device)
    shared, to_gpu, to_nic = below_common_bridge(node, pair.gpu, nic)
    if not shared:
        return NotApplicable("the GPU and the NIC share no switch")
    between = (*to_gpu, *to_nic)
    if not between:
        return NotApplicable("the GPU and the NIC are functions of one device")
    needs = layout_needs(node)
    if needs is not None:
        return NotApplicable(f"acs-bits-differ judges this layout: {needs.layout}")
    port = seek(between, lambda bridge: _redirects(node, bridge, nic))
    if port is None:
        return Passed(f"none of the {len(between)} ports between them redirects")
    if if_missing("none", virtual_machine, node) != "none":
        return NotApplicable("the ports that a virtual machine shows are its hypervisor's")
    found = acs(node, port)
    bits = "ReqRedir+" if found is not None and found.request_redirect else "CmpltRedir+"
    return Failed(seen=f"ACSCtl {bits}", expected="ReqRedir- CmpltRedir-", subject=port)


def _redirects(node: Node, port: str, nic: str) -> bool:
    """Whether a port sends requests or completions of this NIC up to the root complex.

    Direct Translated lets a request pass if the NIC has translated its address itself: PCIe 5.0, 6.12.3.
    """
    found = acs(node, port)
    if found is None or not (found.request_redirect or found.completion_redirect):
        return False
    return not (found.direct_translated and ats_enabled(node, nic))
