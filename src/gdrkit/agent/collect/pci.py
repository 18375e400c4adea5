"""Choose the relevant PCI devices, and remove serial numbers from their configuration space.

Source of classes: PCI Code and ID Assignment Specification 1.11, sections 1.3, 1.4, 1.13, 1.19.
"""

from __future__ import annotations

import re
import struct
from typing import Callable, Dict, Iterable, List, Tuple

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")

DEVICES_LIMIT = 1024
"""Most devices, virtual functions included: 8 cards with 127 each are 1,016."""

# network, display, InfiniBand, accelerators, coprocessors
_CLASSES = ("0x02", "0x03", "0x0c06", "0x12", "0x0b40")
_NVIDIA = "0x10de"

_SERIAL_NUMBER = 0x0003  # PCI Express Base Specification 6.0, 7.9.3: header, lower half, upper half
_EXTENDED = struct.Struct("<I")


def relevant(devices: Iterable[Tuple[str, str]], read: Callable[[str], bytes]) -> List[str]:
    """Addresses of GPUs, network cards and the bridges above them.

    `devices`: pairs of address and path in sys/devices."""
    chosen: Dict[str, bool] = {}
    for address, path in devices:
        kind = read(f"{path}/class").decode("ascii", "replace").strip()
        vendor = read(f"{path}/vendor").decode("ascii", "replace").strip()
        if len(chosen) < DEVICES_LIMIT and (kind.startswith(_CLASSES) or vendor == _NVIDIA):
            for part in path.split("/"):
                if ADDRESS.match(part):
                    chosen[part] = True
            chosen[address] = True
    return sorted(chosen)


def without_serial_number(config: bytes, replace: Callable[[bytes], bytes]) -> bytes:
    """Configuration space with the card's serial number replaced; equal numbers stay equal."""
    changed = bytearray(config)
    offset, seen = 0x100, set()
    while offset and offset not in seen and offset + 12 <= len(config):
        seen.add(offset)
        header = _EXTENDED.unpack_from(config, offset)[0]
        if header & 0xFFFF == _SERIAL_NUMBER:
            lower, upper = struct.unpack_from("<II", config, offset + 4)
            number = replace(struct.pack(">II", upper, lower))
            upper, lower = struct.unpack(">II", number)
            struct.pack_into("<II", changed, offset + 4, lower, upper)
        offset = header >> 20 & 0xFFC
    return bytes(changed)
