"""A NIC that offers translated addresses where no CPU answers them."""

from __future__ import annotations

from gdrkit.facts.acs_layout import AcsLayout, layout_needs
from gdrkit.facts.pci_registers import has_ats
from gdrkit.facts.rdma import RdmaDevice, nic_address, nics
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import DMABUF, Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "nic-ats-unexpected",
    Layer.PCIE,
    per=nics,
    slows=(DMABUF,),
    reported_by=(DecidingCommand("sudo rdma_topo check", "FAIL  ATS capability for TYPE NIC is available"),),
    cost="rdma-core's check refuses this layout: requests of such a NIC may go unanswered.",
    references=("https://github.com/linux-rdma/rdma-core/blob/master/kernel-boot/rdma_topo",),
)
def nic_ats_unexpected(node: Node, device: RdmaDevice) -> Outcome:
    """A NIC on a root port of a Grace or Vera offers PCIe Address Translation Services (ATS).

    Cost: A Grace answers no requests for translations, so that the capability cannot be of use there.

    How to tell: `sudo lspci -vvv -s <nic>` lists `Address Translation Service`. `sudo rdma_topo check`
    reports it as a fault of this layout.

    What to do: Set `ATS_ENABLED=0` with `sudo mlxconfig -d <nic> set ATS_ENABLED=0`, then reboot the host.

    Why: The NIC's firmware offers the capability if ATS_ENABLED is set, which is not its default. It is
    meant for virtual machines on other processors.

    Source: rdma-core kernel-boot/rdma_topo; NVIDIA DOCA documentation, mlxconfig.
    """
    needs = layout_needs(node)
    if needs is None or needs.layout is not AcsLayout.NUMA:
        return NotApplicable("GPU and NIC are not each on a root port of a Grace or Vera")
    address = nic_address(node, device.name)
    if address not in {nic for nic, _ in needs.pairs}:
        return NotApplicable("not a ConnectX-7 or newer")
    if has_ats(node, address):
        return Failed(seen="ATS capability", expected="none (ATS_ENABLED=0)", subject=device.name)
    return Passed("no ATS capability")
