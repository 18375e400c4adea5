"""PCI configuration space: a device's identity, its link, and its capabilities for peer traffic.

Sources: PCI Local Bus 3.0, section 6.1; PCI Express Base 5.0, sections 7.5 (headers, express capability),
7.7.8 (ACS), 7.8.6 (resizable BAR), 7.9.3 (serial number), 10.5.1 (ATS); register names and offsets as in
Linux include/uapi/linux/pci_regs.h. The length of a file: drivers/pci/pci-sysfs.c, pci_read_config() gives
64 bytes to users other than root, and all that the device has (256 or 4096) to root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from gdrkit.formats.errors import FormatError
from gdrkit.formats.pci_express import (
    Acs,
    Ats,
    Express,
    ResizableBar,
    acs,
    ats,
    express,
    resizable_bars,
    serial_number,
)
from gdrkit.formats.pci_registers import BeyondRead, Registers, Truncated

T = TypeVar("T")

_HEADER_BYTES = 64  # readable without root
_CONVENTIONAL_BYTES = 256
_CAPABILITY_EXPRESS = 0x10
_EXTENDED_SERIAL, _EXTENDED_ACS, _EXTENDED_ATS, _EXTENDED_RESIZABLE_BAR = 0x03, 0x0D, 0x0F, 0x15


class Bar(Struct, frozen=True):
    """One base address register in use. Its size is not included: reading it needs a write."""

    index: int
    memory: bool  # else I/O ports
    address: int
    prefetchable: bool
    is_64_bit: bool


class BridgeBuses(Struct, frozen=True):
    """The bus numbers of a bridge."""

    primary: int
    secondary: int
    subordinate: int


class Config(Struct, frozen=True, kw_only=True):
    """A device's configuration space. Truncated: beyond the end of the file. None: the device has none."""

    size_bytes: int
    vendor: int  # 0xFFFF, as the device id, where a virtual function says so
    device: int
    class_code: int  # 24 bits: base class, subclass, interface; a VGA controller is 0x030000
    revision: int
    header_type: int  # 0 is a device, 1 a bridge to another bus
    multifunction: bool
    command: int
    memory_enabled: bool
    bus_master: bool
    subsystem: tuple[int, int] | None  # vendor, device; None for bridges
    buses: BridgeBuses | None  # bridges only
    bars: tuple[Bar, ...]
    capabilities: Mapping[int, int] | Truncated  # id -> offset
    extended_capabilities: Mapping[int, int] | Truncated
    express: Express | Truncated | None
    acs: Acs | Truncated | None
    ats: Ats | Truncated | None
    resizable_bars: tuple[ResizableBar, ...] | Truncated
    serial_number: str | Truncated | None  # as lspci prints it: 94-6d-ae-03-00-12-34-56


def answers(data: bytes) -> bool:
    """Whether the device answered when its configuration space was read: not all bits of the header are
    set.

    A read that no device answers returns ones: PCI Express Base 5.0, section 2.3.2; Linux
    include/linux/pci.h, PCI_ERROR_RESPONSE. The id alone shows nothing, since that of a virtual function is
    ffff:ffff in working order: Single Root I/O Virtualization 1.1, sections 3.4.1.1 and 3.4.1.2. Raises
    FormatError if the data are shorter than a header.
    """
    if len(data) < _HEADER_BYTES:
        raise FormatError("less than the 64 bytes of a PCI header")
    return data[:_HEADER_BYTES] != b"\xff" * _HEADER_BYTES


def parse(data: bytes) -> Config:
    """A device's configuration space, of 64, 256 or 4096 bytes or any length in between.

    Raises FormatError if it is shorter than a header, or if the device does not answer.
    """
    if not answers(data):
        raise FormatError("the device does not answer")
    registers = Registers(bytes(data[:4096]))
    kind = registers.u8(0x0E)
    capabilities = _capabilities(registers, kind & 0x7F)
    extended = _extended_capabilities(registers, capabilities)
    command = registers.u16(0x04)
    return Config(
        size_bytes=len(registers),
        vendor=registers.u16(0),
        device=registers.u16(2),
        class_code=registers.u32(0x08) >> 8,
        revision=registers.u8(0x08),
        header_type=kind & 0x7F,
        multifunction=bool(kind & 0x80),
        command=command,
        memory_enabled=bool(command & 2),
        bus_master=bool(command & 4),
        subsystem=(registers.u16(0x2C), registers.u16(0x2E)) if kind & 0x7F == 0 else None,
        buses=BridgeBuses(*registers.data[0x18:0x1B]) if kind & 0x7F == 1 else None,
        bars=_bars(registers, {0: 6, 1: 2}.get(kind & 0x7F, 0)),
        capabilities=capabilities,
        extended_capabilities=extended,
        express=_read(registers, capabilities, _CAPABILITY_EXPRESS, express),
        acs=_read(registers, extended, _EXTENDED_ACS, acs),
        ats=_read(registers, extended, _EXTENDED_ATS, ats),
        resizable_bars=_read(registers, extended, _EXTENDED_RESIZABLE_BAR, resizable_bars) or (),
        serial_number=_read(registers, extended, _EXTENDED_SERIAL, serial_number),
    )


def _capabilities(registers: Registers, kind: int) -> Mapping[int, int] | Truncated:
    """Offsets of capabilities by id, the first of each. Source: PCI Local Bus 3.0, section 6.7."""
    if not registers.u16(0x06) & 1 << 4:  # status register: no capabilities list
        return {}
    found: dict[int, int] = {}
    at = registers.u8(0x14 if kind == 2 else 0x34) & 0xFC
    seen = set()
    while at >= _HEADER_BYTES and at not in seen:
        seen.add(at)
        if at + 2 > len(registers):
            return Truncated(len(registers))
        identity, following = registers.u8(at), registers.u8(at + 1)
        if identity == 0xFF:  # Linux drivers/pci/pci.h, PCI_FIND_NEXT_CAP: the end of a broken chain
            return found
        found.setdefault(identity, at)
        at = following & 0xFC
    return found


def _extended_capabilities(
    registers: Registers, capabilities: Mapping[int, int] | Truncated
) -> Mapping[int, int] | Truncated:
    """Offsets of extended capabilities by id. Source: PCI Express Base 5.0, section 7.6.3."""
    if not isinstance(capabilities, Truncated) and _CAPABILITY_EXPRESS not in capabilities:
        return {}  # a conventional device ends at 256 bytes: drivers/pci/probe.c, pci_cfg_space_size()
    found: dict[int, int] = {}
    at = _CONVENTIONAL_BYTES
    seen = set()
    while at >= _CONVENTIONAL_BYTES and at not in seen:
        seen.add(at)
        if at + 4 > len(registers):
            return Truncated(len(registers))
        header = registers.u32(at)
        if header in (0, 0xFFFFFFFF):
            return found
        found.setdefault(header & 0xFFFF, at)
        at = header >> 20 & 0xFFC
    return found


def _read(
    registers: Registers,
    found: Mapping[int, int] | Truncated,
    kind: int,
    read: Callable[[Registers, int], T],
) -> T | Truncated | None:
    """A capability's registers if the device has it and the file contains it."""
    if isinstance(found, Truncated):
        return found
    if kind not in found:
        return None
    try:
        return read(registers, found[kind])
    except BeyondRead:
        return Truncated(len(registers))


def _bars(registers: Registers, count: int) -> tuple[Bar, ...]:
    """Base addresses in use. Source: PCI Local Bus 3.0, section 6.2.5.1."""
    bars = []
    index = 0
    while index < count:
        at = index
        low = registers.u32(0x10 + 4 * at)
        index += 1
        if low & 1:
            bars.append(Bar(at, False, low & 0xFFFFFFFC, False, False))
            continue
        address, is_64_bit = low & 0xFFFFFFF0, low & 6 == 4
        if is_64_bit and index < count:
            address |= registers.u32(0x10 + 4 * index) << 32
            index += 1
        if address or low:
            bars.append(Bar(at, True, address, bool(low & 8), is_64_bit))
    return tuple(bars)
