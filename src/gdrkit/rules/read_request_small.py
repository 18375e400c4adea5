"""How much a NIC asks for at a time."""

from __future__ import annotations

from gdrkit.facts.pci_registers import read_request_bytes
from gdrkit.facts.rdma import RdmaDevice, nic_address, nics
from gdrkit.node import Node
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, rule

WANTED_BYTES = 4096
"""The largest that PCI Express has, and what NVIDIA's adapters are tuned with: Mellanox community, DOC-2496,
"Understanding PCIe Configuration for Maximum Performance"; PCI Express Base 5.0, 7.5.3.4."""


@rule(
    "read-request-small",
    Layer.PCIE,
    per=nics,
    direction="send",
    remedies=(RemedyName.RAISE_READ_REQUEST,),
    cost="Sending from GPU memory may be slower than receiving into it.",
)
def read_request_small(node: Node, device: RdmaDevice) -> Outcome:
    """The NIC reads in small pieces.

    Cost: When it sends, the NIC reads GPU memory, and has only so many requests under way: smaller ones
    cover less of the time that an answer takes. How much that costs depends on the distance; measure before
    and after.

    How to tell: `MaxReadReq` below 4096 bytes in `sudo lspci -vvv` of the NIC.

    What to do: `setpci -s <nic> CAP_EXP+8.w` shows the register; its highest digit 5 stands for 4096.
    Firmware setup has it, too ("PCIe Max Read Request Size").

    Why: Firmware's default is often 512.

    Source: PCI Express Base Specification 5.0, 7.5.3.4; Mellanox community, DOC-2496.
    """
    size = read_request_bytes(node, nic_address(node, device.name))
    if size < WANTED_BYTES:
        return Failed(seen=f"{size} bytes", expected=f"{WANTED_BYTES} bytes", subject=device.name)
    return Passed(f"{size} bytes")
