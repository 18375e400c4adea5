"""PCI Express capabilities that decide about the path between peers and its speed.

Sources: PCI Express Base 5.0, sections 7.5.3 (express), 7.7.8 (ACS), 7.8.6 (resizable BAR), 7.9.3 (serial
number), 10.5.1 (ATS); offsets and bits as in Linux include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.formats.pci_registers import Registers

# Express capabilities register, device/port type (7.5.3.2); names as in lspci.
_PORT_TYPES = {
    0: "endpoint",
    1: "legacy-endpoint",
    4: "root-port",
    5: "upstream-port",
    6: "downstream-port",
    7: "pcie-to-pci-bridge",
    8: "pci-to-pcie-bridge",
    9: "root-complex-endpoint",
    10: "root-complex-event-collector",
}
# Link speed codes (7.5.3.6, 7.5.3.18); 6 is defined in Base 6.0.
_GT_PER_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


class LinkRegisters(Struct, frozen=True):
    """A link's registers; a speed is None where its code is not defined."""

    max_gt_per_s: float | None
    max_width: int
    current_gt_per_s: float | None
    current_width: int
    target_gt_per_s: float | None  # requested by software, link control 2
    port_number: int
    training: bool


class Express(Struct, frozen=True, kw_only=True):
    """The PCI Express capability."""

    version: int
    port_type: str
    slot_number: int | None  # physical slot; None if the port has no slot
    supported_payload_bytes: int
    payload_bytes: int
    read_request_bytes: int
    relaxed_ordering: bool
    no_snoop: bool
    extended_tag: bool
    link: LinkRegisters | None  # None for devices inside a root complex


class Acs(Struct, frozen=True, kw_only=True):
    """Access Control Services: what a port can enforce, and what it enforces."""

    capability: int
    control: int

    def _enforced(self, bit: int) -> bool:
        return bool(self.control & 1 << bit)

    @property
    def source_validation(self) -> bool:
        return self._enforced(0)

    @property
    def translation_blocking(self) -> bool:
        return self._enforced(1)

    @property
    def request_redirect(self) -> bool:
        return self._enforced(2)

    @property
    def completion_redirect(self) -> bool:
        return self._enforced(3)

    @property
    def upstream_forwarding(self) -> bool:
        return self._enforced(4)

    @property
    def egress_control(self) -> bool:
        return self._enforced(5)

    @property
    def direct_translated(self) -> bool:
        return self._enforced(6)


class Ats(Struct, frozen=True):
    """Address Translation Services."""

    enabled: bool
    smallest_translation_bytes: int


class ResizableBar(Struct, frozen=True):
    """One BAR whose size software can choose."""

    bar_index: int
    size_bytes: int
    supported_bytes: tuple[int, ...]


def express(registers: Registers, at: int) -> Express:
    """The express capability at an offset. Source: 7.5.3; pci_regs.h PCI_EXP_*."""
    flags = registers.u16(at + 0x02)
    port_type = _PORT_TYPES.get(flags >> 4 & 0xF, "reserved")
    device_capability, device_control = registers.u32(at + 0x04), registers.u16(at + 0x08)
    has_slot = bool(flags & 0x100) and port_type in ("root-port", "downstream-port")
    in_root_complex = port_type.startswith("root-complex")
    return Express(
        version=flags & 0xF,
        port_type=port_type,
        slot_number=registers.u32(at + 0x14) >> 19 if has_slot else None,
        supported_payload_bytes=128 << (device_capability & 7),
        payload_bytes=128 << (device_control >> 5 & 7),
        read_request_bytes=128 << (device_control >> 12 & 7),
        relaxed_ordering=bool(device_control & 1 << 4),
        no_snoop=bool(device_control & 1 << 11),
        extended_tag=bool(device_control & 1 << 8),
        link=None if in_root_complex else _link(registers, at, flags & 0xF),
    )


def _link(registers: Registers, at: int, version: int) -> LinkRegisters:
    capability, status = registers.u32(at + 0x0C), registers.u16(at + 0x12)
    target = registers.u16(at + 0x30) & 0xF if version >= 2 else 0
    return LinkRegisters(
        max_gt_per_s=_GT_PER_S.get(capability & 0xF),
        max_width=capability >> 4 & 0x3F,
        current_gt_per_s=_GT_PER_S.get(status & 0xF),
        current_width=status >> 4 & 0x3F,
        target_gt_per_s=_GT_PER_S.get(target),
        port_number=capability >> 24,
        training=bool(status & 1 << 11),
    )


def acs(registers: Registers, at: int) -> Acs:
    """Access Control Services at an offset. Source: 7.7.8; pci_regs.h PCI_ACS_*."""
    return Acs(capability=registers.u16(at + 4), control=registers.u16(at + 6))


def ats(registers: Registers, at: int) -> Ats:
    """Address Translation Services at an offset. Source: 10.5.1; pci_regs.h PCI_ATS_*."""
    control = registers.u16(at + 6)
    return Ats(enabled=bool(control & 1 << 15), smallest_translation_bytes=4096 << (control & 0x1F))


def resizable_bars(registers: Registers, at: int) -> tuple[ResizableBar, ...]:
    """Resizable BARs at an offset. Source: 7.8.6; pci_regs.h PCI_REBAR_*; sizes are 1 MiB << code."""
    count = registers.u32(at + 8) >> 5 & 7
    bars = []
    for offset in range(at + 4, at + 4 + 8 * count, 8):
        capability, control = registers.u32(offset), registers.u32(offset + 4)
        codes = capability >> 4 | (control >> 16) << 28  # 28 sizes in one register, 16 more in the other
        supported = tuple(1 << 20 + code for code in range(44) if codes & 1 << code)
        bars.append(ResizableBar(control & 7, 1 << 20 + (control >> 8 & 0x3F), supported))
    return tuple(bars)


def serial_number(registers: Registers, at: int) -> str:
    """The device serial number at an offset, as lspci prints it. Source: 7.9.3; ls-ecaps.c, cap_dsn()."""
    return registers.data[at + 4 : at + 12][::-1].hex("-")
