"""The NICs read 4096 bytes per PCIe request, until the next boot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.facts.pci_registers import read_request_bytes
from gdrkit.facts.rdma import nic_address, nics
from gdrkit.node import Node, Supposition, each_known
from gdrkit.repair.platforms.action import Action, RunCommand
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.read_request_small import WANTED_BYTES
from gdrkit.rules.remedy_names import RemedyName

READ_REQUEST_MASK = 0x7000
READ_REQUEST_4096 = 0x5000
"""Max_Read_Request_Size is bits 14:12 of Device Control; 5 is 4096 bytes: PCI Express Base 5.0, 7.5.3.4."""


def _effect(node: Node) -> Iterable[Supposition]:
    for device in nics(node):
        yield read_request_bytes.becomes(WANTED_BYTES, nic_address(node, device.name))


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Set three bits of each NIC's Device Control register. Firmware resets them at each boot."""
    del platform, choices
    named = ((nic.name, nic_address(node, nic.name)) for nic in nics(node))
    for name, address, size in each_known(lambda nic: (*nic, read_request_bytes(node, nic[1])), named):
        if size >= 4096:
            continue
        old = (size.bit_length() - 8) << 12  # 128 bytes is 0
        yield RunCommand(
            argv=("setpci", "-s", address, f"CAP_EXP+0x8.w={READ_REQUEST_4096:04x}:{READ_REQUEST_MASK:04x}"),
            why=f"let {name} read 4096 bytes per request",
            undo=(("setpci", "-s", address, f"CAP_EXP+0x8.w={old:04x}:{READ_REQUEST_MASK:04x}"),),
            never_executed=True,
        )


RAISE_READ_REQUEST = Remedy(
    name=RemedyName.RAISE_READ_REQUEST,
    title="set the PCIe read requests of the NICs to 4096 bytes",
    effect=_effect,
    changes=Change.REGISTER,
    becomes="MaxReadReq of each NIC is 4096 bytes until the next boot",
    risk="other devices below the same port may wait longer; measure before and after",
    undo="restore the former value with setpci, or reboot",
    procedure=_procedure,
    commands=("setpci -s ADDRESS REGISTER",),
)
