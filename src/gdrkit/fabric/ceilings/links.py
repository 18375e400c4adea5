"""The payload rate of a PCIe link, in one direction.

Three things reduce the raw rate: the encoding of bits, the header of each packet, and the packets that only
maintain the link (acknowledgements and flow control). The first two follow from the specification and give
the upper bound. The third, with all other losses, was measured.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.fabric.ceilings.interval import Interval, between, least
from gdrkit.facts.pci_path import raw_gbit_per_s

Direction = Literal["read", "write"]

FRAMING_BYTES = 8
"""Of every packet outside FLITs: at 8 GT/s and above an STP token of 4 bytes, which includes the sequence
number, and a link CRC of 4 (Base 5.0, 4.2.2.3.1 and 3.6.2.2); below, STP and END of 1 byte each, 2 of
sequence number and 4 of CRC (4.2.1.2)."""

WRITE_HEADER_BYTES = 16
"""A memory write to a 64-bit address: four double words (Base 5.0, 2.2.4.1 and 2.2.7)."""

COMPLETION_HEADER_BYTES = {False: 12, True: 16}
"""A completion with data: three double words (Base 5.0, 2.2.9), four in FLIT mode (Base 6.0, 2.2.9)."""

SMALLEST_PAYLOAD_BYTES, LARGEST_PAYLOAD_BYTES = 128, 512
"""The range of MaxPayload where it is not readable: every device must accept 128 (Base 5.0, 7.5.3.4), and
ConnectX adapters support 512; lspci of a ConnectX-6 Dx, github.com/NVIDIA/l2fwd-nv/issues/6."""

TUNED_SHARE = 0.84
"""The lowest share of the bound seen in runs without a known fault. NVIDIA's own guide to the DGX Spark
shows 97.28 Gbit/s on 32 GT/s x4, 0.84 of 115.2; others measured 111.7 there, and copies between host and
GPU reach 0.87 to 0.96 (docs/measurements.md). Neugebauer et al., "Understanding PCIe performance for end
host networking" (SIGCOMM 2018), assume 0.92 for flow control and acknowledgements alone."""


class PcieLink(Struct, frozen=True, kw_only=True):
    """One PCIe link. Sizes are None if they were not readable: only root can read them."""

    gt_per_s: float
    width: int
    max_payload_bytes: int | None = None  # device control, Max_Payload_Size as set
    read_request_bytes: int | None = None  # device control, Max_Read_Request_Size, of the reader

    def __str__(self) -> str:
        return f"{self.gt_per_s:g} GT/s x{self.width}"


def payload(link: PcieLink, direction: Direction) -> Interval:
    """The payload rate of a device over its link: write, into memory; read, out of memory, in completions.

    A completion is limited by MaxPayload and by the size of the read request (Base 5.0, 2.3.1.1)."""
    known = link.max_payload_bytes
    sizes = [known] if known else [SMALLEST_PAYLOAD_BYTES, LARGEST_PAYLOAD_BYTES]
    if direction == "read" and link.read_request_bytes:
        sizes = [min(size, link.read_request_bytes) for size in sizes]
    shares = [_share(link.gt_per_s, size, direction) for size in sizes]
    gb_per_s = raw_gbit_per_s(link.gt_per_s, link.width) / 8
    return between(gb_per_s * min(shares) * TUNED_SHARE, gb_per_s * max(shares))


def both_ways(link: PcieLink) -> Interval:
    """The lower of reading and writing, since what one node reads another one writes."""
    return least((payload(link, "read"), payload(link, "write")))


def _share(gt_per_s: float, payload_bytes: int, direction: Direction) -> float:
    """The payload's share of a packet, with its header and framing."""
    flit = gt_per_s == 64.0
    header = WRITE_HEADER_BYTES if direction == "write" else COMPLETION_HEADER_BYTES[flit]
    return payload_bytes / (payload_bytes + header + (0 if flit else FRAMING_BYTES))
