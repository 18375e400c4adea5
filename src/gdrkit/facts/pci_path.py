"""The PCIe links between a device and the root complex, and what they carry."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts.pci import bridges_above
from gdrkit.facts.pci_registers import LinkSpeeds, link
from gdrkit.node import Node, each_known, fact

ENCODING = {2.5: 8 / 10, 5.0: 8 / 10, 64.0: 236 / 256}
"""Share of a link's bits that are packets, where it is not 128/130: 8b/10b at 2.5 and 5 GT/s (PCI Express
Base 5.0, 4.2.1), FLITs of 236 bytes of packets in 256 at 64 GT/s (Base 6.0, 4.2.3)."""


class Segment(Struct, frozen=True):
    """One link on the way up: the device or switch at its lower end, what it runs at, what both ends can."""

    address: str
    gt_per_s: float
    width: int
    best_gt_per_s: float
    best_width: int

    @property
    def gbit_per_s(self) -> float:
        """What it carries in one direction, in Gbit/s, headers included: no payload is ever more."""
        return self.gt_per_s * self.width * ENCODING.get(self.gt_per_s, 128 / 130)


@fact
def links_to_root(node: Node, address: str) -> tuple[Segment, ...]:
    """The links above a device, its own first. Raises EvidenceMissing where the device's own link is not
    known.

    Ports alternate: one that looks down, one that looks up, and a switch has one of these and some of those.
    Links of switches that nobody can read are left out, as are the made-up ones of virtual machines."""
    chain = (*bridges_above(node, address), address)
    segments = [_segment(node, address, link(node, address), chain[-2:-1])]
    farther = range(len(chain) - 3, 0, -2)
    for index, own in each_known(lambda index: (index, link(node, chain[index])), farther):
        segments.append(_segment(node, chain[index], own, chain[index - 1 : index]))
    return tuple(segments)


def _segment(node: Node, address: str, own: LinkSpeeds, above: tuple[str, ...]) -> Segment:
    """A link can do what the weaker of its ends can."""
    speed, width = own.max_gt_per_s, own.max_width
    for port in above:
        try:
            upper = link(node, port)
        except EvidenceMissing as lacks:
            if not isinstance(lacks, EvidenceAbsent) and lacks.missing.why is not MissingReason.UNDECIDED:
                raise
            continue
        speed, width = min(speed, upper.max_gt_per_s), min(width, upper.max_width)
    return Segment(address, own.current_gt_per_s, own.current_width, speed, width)
