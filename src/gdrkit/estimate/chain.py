"""A way for data as a chain of limits, of which one is the tightest. PURE."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.estimate.interval import Interval, least


class Limit(Struct, frozen=True):
    """One thing on the way, and what it lets pass in one direction."""

    name: str  # gpu-link, switch-uplink, root-complex, nic-link, port, ...
    subject: str  # a PCI address, an RDMA device
    interval: Interval
    said: str  # what it is: "32 GT/s x4, MaxPayload 256"
    shared_with: tuple[str, ...] = ()  # who else needs it


class Chain(Struct, frozen=True, kw_only=True):
    """The limits of one path, in the order of the way, and what on that way nobody knows."""

    path: str  # direct, host-mapped, staged, socket
    limits: tuple[Limit, ...]
    unknown: tuple[str, ...] = ()

    @property
    def tightest(self) -> Limit | None:
        """The limit with the lowest upper bound; the first of equals. None where nothing is known."""
        return min(self.limits, key=lambda limit: limit.interval.high_gb_per_s, default=None)

    @property
    def interval(self) -> Interval | None:
        """What passes. Where a limit is unknown, the others still bound it from above, and nothing does from
        below."""
        if not self.limits:
            return None
        bounds = least(limit.interval for limit in self.limits)
        return Interval(0.0, bounds.high_gb_per_s) if self.unknown else bounds
