"""PCI devices worth a closer look, and what is taken out of their configuration space.

Source of classes: PCI Code and ID Assignment Specification 1.11, sections 1.3, 1.4, 1.13, 1.19.
"""

from __future__ import annotations

import re
import struct
from typing import Callable, Dict, Iterable, List, Tuple

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")

DEVICES_LIMIT = 1024
"""Virtual functions count: 8 cards with 127 each are 1,016."""

_CLASSES = (
    "0x02",
    "0x03",
    "0x0c06",
    "0x12",
    "0x0b40",
)  # network, display, InfiniBand, accelerators, coprocessors
_NVIDIA = "0x10de"

_SERIAL_NUMBER = 0x0003  # PCI Express Base Specification 6.0, 7.9.3: header, lower half, upper half
_EXTENDED = struct.Struct("<I")


def interesting(places: Iterable[Tuple[str, str]], read: Callable[[str], bytes]) -> List[str]:
    """Addresses of GPUs, network cards and everything above them. `places`: address and path in
    sys/devices."""
    chosen: Dict[str, bool] = {}
    for address, path in places:
        kind = read(f"{path}/class").decode("ascii", "replace").strip()
        vendor = read(f"{path}/vendor").decode("ascii", "replace").strip()
        if len(chosen) < DEVICES_LIMIT and (kind.startswith(_CLASSES) or vendor == _NVIDIA):
            for part in path.split("/"):
                if ADDRESS.match(part):
                    chosen[part] = True
            chosen[address] = True
    return sorted(chosen)


def without_serial_number(config: bytes, replace: Callable[[bytes], bytes]) -> bytes:
    """Configuration space with the card's serial number replaced; equal ones stay equal."""
    changed = bytearray(config)
    place, seen = 0x100, set()
    while place and place not in seen and place + 12 <= len(config):
        seen.add(place)
        header = _EXTENDED.unpack_from(config, place)[0]
        if header & 0xFFFF == _SERIAL_NUMBER:
            lower, upper = struct.unpack_from("<II", config, place + 4)
            number = replace(struct.pack(">II", upper, lower))
            upper, lower = struct.unpack(">II", number)
            struct.pack_into("<II", changed, place + 4, lower, upper)
        place = header >> 20 & 0xFFC
    return bytes(changed)
