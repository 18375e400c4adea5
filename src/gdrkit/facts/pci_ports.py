"""The PCI Express capability: a function's role in the tree, and its packet sizes."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.pci_registers import config
from gdrkit.facts.pci_text import text_device
from gdrkit.facts.supplied import not_collected
from gdrkit.formats.pci_registers import Truncated
from gdrkit.node import Node, fact, first_collected


class PortRegisters(Struct, frozen=True):
    """Fields of the PCI Express capability. None and empty: the source does not show it."""

    port_type: str  # root-port, upstream-port, downstream-port, endpoint, ...
    payload_bytes: int | None = None  # MaxPayload of device control
    max_payload_bytes: int | None = None  # what the device supports
    read_request_bytes: int | None = None
    slot: str = ""  # number of the physical slot of a port


@fact
def port_registers(node: Node, address: str) -> PortRegisters:
    """The PCI Express capability. Raises EvidenceAbsent for a conventional PCI function, EvidenceMissing
    where it is not readable without root or was not collected."""

    def in_config() -> PortRegisters:
        found = config(node, address).express
        if isinstance(found, Truncated):
            source = f"sys/bus/pci/devices/{address}/config beyond byte {found.size_bytes}"
            raise EvidenceMissing(
                Missing(source, MissingReason.DENIED, f"sudo lspci -vvv -s {quoted(address)}")
            )
        if found is None:
            raise EvidenceAbsent(
                Missing(f"PCI Express of {address}", MissingReason.ABSENT, f"lspci -vv -s {quoted(address)}")
            )
        return PortRegisters(
            found.port_type,
            found.payload_bytes,
            found.supported_payload_bytes,
            found.read_request_bytes,
            "" if found.slot_number is None else str(found.slot_number),
        )

    def in_text() -> PortRegisters:
        device = text_device(node, address)
        if not device.port_type:
            raise not_collected(f"PCI Express of {address}", f"sudo lspci -vvv -s {quoted(address)}")
        return PortRegisters(
            device.port_type.lower().replace(" ", "-"),
            device.payload_bytes,
            device.max_payload_bytes,
            device.read_request_bytes,
        )

    return first_collected(in_config, in_text)


@fact
def serial_number(node: Node, address: str) -> str:
    """The device serial number, equal for all functions of a card: 94-6d-ae-03-00-12-34-56."""
    found = config(node, address).serial_number
    if isinstance(found, Truncated):
        source = f"sys/bus/pci/devices/{address}/config beyond byte {found.size_bytes}"
        raise EvidenceMissing(Missing(source, MissingReason.DENIED, f"sudo lspci -vvv -s {quoted(address)}"))
    if found is None:
        raise EvidenceAbsent(
            Missing(
                f"serial number of {address}", MissingReason.ABSENT, f"sudo lspci -vvv -s {quoted(address)}"
            )
        )
    return found
