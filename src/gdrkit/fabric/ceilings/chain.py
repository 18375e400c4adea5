"""A way for data as a chain of limits, of which one is the tightest."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.fabric.ceilings.interval import Interval, between, least

PathName = Literal["direct", "host-mapped", "staged", "socket"]
"""direct stands for dmabuf and peermem, which differ in how memory is registered and not in the way."""

LimitName = Literal[
    "gpu-link",
    "gpu-c2c",
    "gpu-links",
    "gpus-together",
    "switch-uplink",
    "root-complex",
    "nic-link",
    "port",
    "host-copy",
    "tcp",
    "network",
]


class Limit(Struct, frozen=True):
    """One thing on the way, and what it lets pass in one direction."""

    name: LimitName
    subject: str  # a PCI address, an RDMA device, or what is counted together
    description: str  # what it is: "32 GT/s x4, MaxPayload 256"
    rate: Interval
    shared_with: tuple[str, ...]  # who else needs it


class Chain(Struct, frozen=True):
    """The limits of one path, in the order of the way, and what on that way nobody knows.

    `rate` is what passes, null where nothing is known. `tightest` has the lowest upper bound, and is the
    first of equals.
    """

    path: PathName
    rate: Interval | None
    tightest: Limit | None
    limits: tuple[Limit, ...]
    unknown: tuple[str, ...]  # then the rate's lower bound is 0


def chained(path: PathName, limits: tuple[Limit, ...], unknown: tuple[str, ...] = ()) -> Chain:
    """The chain of these limits. Where one is unknown, the others still bound the rate from above, and
    nothing does from below."""
    if not limits:
        return Chain(path, None, None, limits, unknown)
    rate = least(limit.rate for limit in limits)
    if unknown:
        rate = between(0.0, rate.high_gb_per_s)
    return Chain(path, rate, min(limits, key=lambda limit: limit.rate.high_gb_per_s), limits, unknown)
