"""A data path as a chain of limits, one of them the tightest."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.fabric.ceilings.interval import Interval, between, least

PathName = Literal["direct", "host-mapped", "staged", "socket"]
"""direct covers dmabuf and peermem, which register memory differently and take the same path."""

LimitName = Literal[
    "gpu-link",
    "gpu-c2c",
    "gpu-links",
    "switch-uplink",
    "root-complex",
    "nic-link",
    "port",
    "host-copy",
    "tcp",
    "network",
    "nvlink",
]


class Limit(Struct, frozen=True):
    """One link, port or copy on a path, and the rate that it allows in one direction."""

    name: LimitName
    subject: str  # a PCI address, an RDMA device, or what is counted together
    description: str  # what it is: "32 GT/s x4, MaxPayload 256"
    rate: Interval
    shared_with: tuple[str, ...]  # GPUs and RDMA devices that use it too


class LatencyRange(Struct, frozen=True):
    """Microseconds of a small message between GPUs of two nodes, from best to worst."""

    low_us: float
    high_us: float


class Chain(Struct, frozen=True):
    """The limits of one path, in the order that data passes them, and what is not known of it.

    `rate` is that of the whole path, null where no limit is known. `tightest` has the lowest upper bound;
    of equals, the first.
    """

    path: PathName
    rate: Interval | None
    tightest: Limit | None
    limits: tuple[Limit, ...]
    unknown: tuple[str, ...]  # then the rate's lower bound is 0
    latency: LatencyRange | None = None  # of one hop; null for cards and nodes


def chained(path: PathName, limits: tuple[Limit, ...], unknown: tuple[str, ...] = ()) -> Chain:
    """The chain of these limits. If anything is unknown, the others still give an upper bound, and the
    lower bound is 0."""
    if not limits:
        return Chain(path, None, None, limits, unknown)
    rate = least(limit.rate for limit in limits)
    if unknown:
        rate = between(0.0, rate.high_gb_per_s)
    return Chain(path, rate, min(limits, key=lambda limit: limit.rate.high_gb_per_s), limits, unknown)
