"""Compressed modules of several streams, with other filters and checks, and with bytes behind the stream.

The kernel unpacks some of them itself and reads one stream; modprobe reads all of them.
"""

from __future__ import annotations

from lab.case import Case, one

_PACKINGS = {
    "xz": (
        "streams", "stream-and-none", "padded-oddly", "trailing", "trailing-few", "delta", "x86", "sha256",
    ),
    "zst": ("streams", "trailing"),
    "gz": ("streams", "trailing"),
}  # fmt: skip

CASES = (
    *(
        Case(
            name=f"packing-{kind}-{packing}",
            modules=(one("plain", compression=kind, packing=packing),),
            groups=("modprobe",),
        )
        for kind, packings in _PACKINGS.items()
        for packing in packings
    ),
    Case(
        name="packing-of-a-dependency",
        modules=(one("provider", compression="xz", packing="streams"), one("consumer")),
        load="{module:consumer}",
        groups=("modprobe",),
    ),
)
