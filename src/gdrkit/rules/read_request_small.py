"""The size of a NIC's PCIe read requests."""

from __future__ import annotations

from gdrkit.facts.pci_registers import read_request_bytes
from gdrkit.facts.rdma import RdmaDevice, nic_address, nics
from gdrkit.node import Node
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, rule

WANTED_BYTES = 4096
"""The maximum of PCI Express, and the value for tuning NVIDIA's adapters: Mellanox community, DOC-2496,
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
    """The NIC reads memory in PCIe requests smaller than 4096 bytes.

    Cost: To send, the NIC reads GPU memory and can have only a limited number of requests in flight; smaller
    requests hide less of the latency. How much that costs depends on the distance; measure before and after.

    How to tell: `sudo lspci -vvv -s <nic>` shows `MaxReadReq` below 4096 bytes.

    What to do: Set the highest hexadecimal digit of the register that `sudo setpci -s <nic> CAP_EXP+8.w`
    shows to 5, which means 4096 bytes. Firmware setup may offer the setting too ("PCIe Max Read Request
    Size").

    Why: The default of the firmware is often 512.

    Source: PCI Express Base Specification 5.0, 7.5.3.4; Mellanox community, DOC-2496.
    """
    size = read_request_bytes(node, nic_address(node, device.name))
    if size < WANTED_BYTES:
        return Failed(seen=f"{size} bytes", expected=f"{WANTED_BYTES} bytes", subject=device.name)
    return Passed(f"{size} bytes")
