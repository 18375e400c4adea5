"""The PCIe links between a device and the root complex, and their bandwidth."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts.pci import bridges_above
from gdrkit.facts.pci_registers import LinkSpeeds, link
from gdrkit.node import Node, each_known, fact

ENCODING = {2.5: 8 / 10, 5.0: 8 / 10, 64.0: 236 / 256}
"""Share of packet bits in a link's bits, where it is not 128/130: 8b/10b at 2.5 and 5 GT/s (PCI Express Base
5.0, 4.2.1), FLITs of 256 bytes with 236 bytes of packets at 64 GT/s (Base 6.0, 4.2.3)."""


def raw_gbit_per_s(gt_per_s: float, width: int) -> float:
    """A link's bandwidth in one direction in Gbit/s, packet headers included; payload is always less."""
    return gt_per_s * width * ENCODING.get(gt_per_s, 128 / 130)


def kernel_gbit_per_s(gt_per_s: float, width: int) -> float:
    """The same as the kernel prints it: whole Mbit/s of a lane times the lanes, at 64 GT/s all bits.

    Source: Linux drivers/pci/pci.c, pcie_bandwidth_available(); pci.h, PCIE_SPEED2MBS_ENC."""
    lane = gt_per_s if gt_per_s == 64 else raw_gbit_per_s(gt_per_s, 1)
    return int(lane * 1000) * width / 1000


class Segment(Struct, frozen=True):
    """One link on the path: the function at its lower end, its current speed and width, the best of both
    ends."""

    address: str
    gt_per_s: float
    width: int
    best_gt_per_s: float
    best_width: int

    @property
    def gbit_per_s(self) -> float:
        """Its bandwidth as it runs."""
        return raw_gbit_per_s(self.gt_per_s, self.width)


@fact
def links_to_root(node: Node, address: str) -> tuple[Segment, ...]:
    """The links above a device, its own first. Raises EvidenceMissing where its own link is not known.

    Downstream and upstream ports alternate on the path. Links of switches that are not readable are left
    out, and so are the emulated ones of virtual machines."""
    chain = (*bridges_above(node, address), address)
    segments = [_segment(node, address, link(node, address), chain[-2:-1])]
    farther = range(len(chain) - 3, 0, -2)
    for index, own in each_known(lambda index: (index, link(node, chain[index])), farther):
        segments.append(_segment(node, chain[index], own, chain[index - 1 : index]))
    return tuple(segments)


def _segment(node: Node, address: str, own: LinkSpeeds, above: tuple[str, ...]) -> Segment:
    """The best speed and width of a link are those of its weaker end."""
    speed, width = own.max_gt_per_s, own.max_width
    for port in above:
        try:
            upper = link(node, port)
        except EvidenceMissing as error:
            if not isinstance(error, EvidenceAbsent) and error.missing.why is not MissingReason.UNDECIDED:
                raise
            continue
        speed, width = min(speed, upper.max_gt_per_s), min(width, upper.max_width)
    return Segment(address, own.current_gt_per_s, own.current_width, speed, width)
