"""PCI configuration space: 4096 bytes as root reads them.

Layout: PCI Express Base Specification 6.0, 7.5 (type 0 and 1 headers, PCI Express capability), 7.7.11 (ACS),
7.8.6 (resizable BARs), 10.5 (ATS)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

SPEEDS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
ACS = ("SV", "TB", "RR", "CR", "UF", "EC", "DT")
_PORT_TYPES = {"endpoint": 0, "root": 4, "up": 5, "down": 6}


class Space(NamedTuple):
    """What the registers say."""

    vendor: int
    device: int
    class_code: int
    revision: int
    subsystem: tuple[int, int]
    kind: str  # endpoint, root, up, down
    now: tuple[str, int]  # speed in GT/s, lanes
    most: tuple[str, int]
    bars: Sequence[tuple[int, int, int, bool]] = ()  # register, address, bytes, 64 bit
    buses: tuple[int, int, int] = (0, 0, 0)
    read_request: int = 512
    acs: Sequence[str] | None = None
    ats: bool | None = None
    serial: int = 0


def build(space: Space) -> bytes:
    """The registers as bytes."""
    raw = bytearray(4096)
    bridge = space.kind != "endpoint"
    struct.pack_into(
        "<HHHHI", raw, 0, space.vendor, space.device, 0x0406, 0x10, space.class_code << 8 | space.revision
    )
    raw[0x0E] = 1 if bridge else 0
    raw[0x34] = 0x60
    if bridge:
        raw[0x18:0x1B] = bytes(space.buses)
    else:
        struct.pack_into("<HH", raw, 0x2C, *space.subsystem)
        for register, address, _, wide in space.bars:
            struct.pack_into(
                "<Q" if wide else "<I", raw, 0x10 + 4 * register, address | (0xC if wide else 0)
            )
    _express(raw, space)
    _extended(raw, space)
    return bytes(raw)


def _express(raw: bytearray, space: Space) -> None:
    at = 0x60
    struct.pack_into("<BBHI", raw, at, 0x10, 0, 2 | _PORT_TYPES[space.kind] << 4, 0x8002)
    control = 1 << 4 | 1 << 8 | 1 << 11 | 1 << 5 | (space.read_request.bit_length() - 8) << 12
    struct.pack_into("<H", raw, at + 8, control)
    top = SPEEDS[space.most[0]]
    struct.pack_into("<I", raw, at + 0xC, top | space.most[1] << 4)
    struct.pack_into("<H", raw, at + 0x12, SPEEDS[space.now[0]] | space.now[1] << 4)
    struct.pack_into("<I", raw, at + 0x2C, 2 ** (top + 1) - 2)
    struct.pack_into("<H", raw, at + 0x30, top)


def _extended(raw: bytearray, space: Space) -> None:
    blocks = [(0x0001, 2, bytes(0x44))]
    if space.serial:
        blocks.append((0x0003, 1, struct.pack("<Q", space.serial)))
    if space.acs is not None:
        bits = sum(1 << ACS.index(bit) for bit in space.acs)
        blocks.append((0x000D, 1, struct.pack("<HH", 0x5F, bits)))
    if space.ats is not None:
        blocks.append((0x000F, 1, struct.pack("<HH", 0x20, space.ats << 15)))
    at = 0x100
    for index, (identity, version, body) in enumerate(blocks):
        following = (at + 4 + len(body) + 15) & ~15
        link = following if index + 1 < len(blocks) else 0
        struct.pack_into("<I", raw, at, identity | version << 16 | link << 20)
        raw[at + 4 : at + 4 + len(body)] = body
        at = following
