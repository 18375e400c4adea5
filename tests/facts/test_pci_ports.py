"""A function's role in the tree, and its packet sizes."""

import pytest

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.pci_ports import PortRegisters, port_registers, serial_number
from gdrkit.node import Node
from tests.evidence_nodes import build
from tests.memory_host import MemoryHost

LSPCI = """0000:15:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a]
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr+ NonFatalErr+
\t\t\tMaxPayload 256 bytes, MaxReadReq 128 bytes
"""
CUT = bytes.fromhex("de10352306041000a1000203") + bytes(0x34 - 12) + b"\x60" + bytes(11)
"""The first 64 bytes, with a list of capabilities that starts after them."""


def test_registers_show_the_type_and_payload_of_a_port(tmp_path):
    node = Node(open_host(str(build("acs-redirect", tmp_path))))
    assert port_registers(node, "0000:16:00.0") == PortRegisters("upstream-port", 256, 512, 512)
    assert serial_number(node, "0000:18:00.0").count("-") == 7


def test_lspcis_text_shows_the_same():
    node = Node(MemoryHost(commands={("lspci", "-nnvvv"): LSPCI}))
    assert port_registers(node, "0000:15:01.0") == PortRegisters("root-port", 256, 512, 128)


@pytest.mark.parametrize("ask", [port_registers, serial_number])
def test_registers_that_only_root_can_read_are_unknown(ask):
    node = Node(MemoryHost({"sys/bus/pci/devices/0000:1b:00.0/config": CUT}))
    with pytest.raises(EvidenceMissing) as reason:
        ask(node, "0000:1b:00.0")
    assert reason.value.missing.why is MissingReason.DENIED


def test_what_was_not_copied_is_not_collected():
    with pytest.raises(EvidenceMissing) as reason:
        port_registers(Node(MemoryHost()), "0000:1b:00.0")
    assert reason.value.missing.why is MissingReason.NOT_COLLECTED
