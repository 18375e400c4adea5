"""PCI configuration space as root reads it from the kernel's `config` file: 4096 bytes.

Layout: PCI Express Base Specification 5.0, 7.5 (registers) and 7.7/7.8 (extended capabilities); register
names as in Linux include/uapi/linux/pci_regs.h."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

PORT_TYPES = {
    "endpoint": 0x0,
    "legacy": 0x1,
    "root-port": 0x4,
    "switch-up": 0x5,
    "switch-down": 0x6,
    "rciep": 0x9,
}
SPEEDS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}  # GT/s -> link speed code
ACS_BITS = ("SV", "TB", "RR", "CR", "UF", "EC", "DT")  # bit 0 upwards, of capability and of control


class Link(NamedTuple):
    """One end of a PCIe link: speeds in GT/s as in sysfs, widths in lanes."""

    current_speed: str
    current_width: int
    max_speed: str
    max_width: int


class Bar(NamedTuple):
    """A memory region. A 64-bit one uses its own register and the next."""

    index: int
    base: int
    size: int
    wide: bool  # 64 bit and prefetchable, else 32 bit


class Space(NamedTuple):
    """The fields of one function's configuration space."""

    vendor: int
    device: int
    class_code: int  # 24 bits
    revision: int
    subsystem_vendor: int
    subsystem_device: int
    kind: str  # a key of PORT_TYPES, or "conventional" for a function without PCIe capability
    link: Link | None
    bars: Sequence[Bar] = ()
    bus_numbers: tuple[int, int, int] = (0, 0, 0)  # bridges: primary, secondary, subordinate
    max_payload: int = 256  # bytes
    max_read_request: int = 512  # bytes
    relaxed_ordering: bool = True
    acs_control: Sequence[str] | None = None  # None: no ACS capability
    ats: bool | None = None  # None: no ATS capability; else whether it is enabled
    serial: int | None = None
    resizable: tuple[int, int, int] | None = None  # register index, current and largest size in bytes
    slot: int = 0


def build(space: Space) -> bytes:
    """The 4096 bytes of a configuration space."""
    raw = bytearray(4096)
    bridge = space.kind in ("root-port", "switch-up", "switch-down")
    struct.pack_into(
        "<HHHH", raw, 0, space.vendor, space.device, 0x0546, 0x0010
    )  # capabilities list present
    struct.pack_into("<I", raw, 8, space.class_code << 8 | space.revision)
    raw[0x0E] = 1 if bridge else 0
    raw[0x34] = 0x40 if space.kind != "conventional" else 0
    if bridge:
        raw[0x18:0x1B] = bytes(space.bus_numbers)
    else:
        _bars(raw, space.bars)
        struct.pack_into("<HH", raw, 0x2C, space.subsystem_vendor, space.subsystem_device)
        raw[0x3D] = 1
    if space.kind == "conventional":
        return bytes(raw[:256])
    struct.pack_into("<BBHH", raw, 0x40, 0x01, 0x60, 0x0003, 0x0008)  # power management
    _express(raw, 0x60, space, following=0xC0 if bridge else 0)
    if bridge:  # subsystem ids of a bridge are in a capability
        struct.pack_into("<BBHHH", raw, 0xC0, 0x0D, 0, 0, space.subsystem_vendor, space.subsystem_device)
    _extended(raw, space)
    return bytes(raw)


def _bars(raw: bytearray, bars: Sequence[Bar]) -> None:
    for bar in bars:
        if bar.wide:
            struct.pack_into("<Q", raw, 0x10 + 4 * bar.index, bar.base | 0xC)
        else:
            struct.pack_into("<I", raw, 0x10 + 4 * bar.index, bar.base)


def _express(raw: bytearray, at: int, space: Space, following: int) -> None:
    port = PORT_TYPES[space.kind]
    slot = space.slot != 0
    struct.pack_into("<BBH", raw, at, 0x10, following, 2 | port << 4 | slot << 8)
    struct.pack_into("<I", raw, at + 4, 0x10008002)  # MaxPayloadSupported 512, FLR
    control = space.relaxed_ordering << 4 | 1 << 8 | 1 << 11  # extended tags, no snoop
    control |= (space.max_payload.bit_length() - 8) << 5 | (space.max_read_request.bit_length() - 8) << 12
    struct.pack_into("<HH", raw, at + 8, control, 0)
    if space.link is not None:
        most = SPEEDS[space.link.max_speed]
        struct.pack_into("<I", raw, at + 0x0C, most | space.link.max_width << 4)
        status = SPEEDS[space.link.current_speed] | space.link.current_width << 4 | 1 << 12
        struct.pack_into("<HH", raw, at + 0x10, 0, status)
        struct.pack_into("<I", raw, at + 0x2C, (2 ** (most + 1) - 2))  # supported speeds, bit 1 upwards
        struct.pack_into("<H", raw, at + 0x30, most)
    if slot:
        struct.pack_into("<I", raw, at + 0x14, space.slot << 19)
    struct.pack_into("<I", raw, at + 0x24, 0x00000010)


def _extended(raw: bytearray, space: Space) -> None:
    blocks: list[tuple[int, int, bytes]] = [(0x0001, 2, b"\0" * 0x44)]  # advanced error reporting
    if space.serial is not None:
        blocks.append((0x0003, 1, struct.pack("<Q", space.serial)))
    if space.acs_control is not None:
        control = sum(1 << ACS_BITS.index(bit) for bit in space.acs_control)
        blocks.append((0x000D, 1, struct.pack("<HH", 0x005F, control)))
    if space.ats is not None:
        blocks.append((0x000F, 1, struct.pack("<HH", 0x0020, space.ats << 15)))
    if space.resizable is not None:
        index, *sizes = space.resizable
        now, most = (size.bit_length() - 21 for size in sizes)  # 0 means 1 MiB, register bit 4
        supported = sum(1 << bit for bit in range(6, most + 1)) << 4 & 0xFFFFFFFF
        blocks.append((0x0015, 1, struct.pack("<II", supported, index | 1 << 5 | now << 8)))
    at = 0x100
    for index, (identity, version, body) in enumerate(blocks):
        after = (at + 4 + len(body) + 15) & ~15
        following = after if index + 1 < len(blocks) else 0
        struct.pack_into("<I", raw, at, identity | version << 16 | following << 20)
        raw[at + 4 : at + 4 + len(body)] = body
        at = after
