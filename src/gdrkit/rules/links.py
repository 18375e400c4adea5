"""PCIe links that carry less than they should."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.pci_path import Segment, links_to_root
from gdrkit.facts.rdma import RdmaDevice, nic_address, nics, ports
from gdrkit.node import Node
from gdrkit.rules.rule import REGISTRATION, Failed, Layer, NotApplicable, Outcome, Passed, rule


def ends(node: Node) -> Iterator[PciGpu | RdmaDevice]:
    """Both ends of every pair."""
    yield from gpus(node)
    yield from nics(node)


@rule(
    "link-degraded",
    Layer.PCIE,
    per=ends,
    slows=REGISTRATION,
    cost="Nothing goes faster than the narrowest link on the way.",
    references=("https://docs.kernel.org/PCI/sysfs-pci.html",),
)
def link_degraded(node: Node, end: PciGpu | RdmaDevice) -> Outcome:
    """A PCIe link runs narrower or slower than both its ends can.

    Cost: Bandwidth in proportion.

    How to tell: current_link_width below what the device and the port above it both name as their maximum,
    or current_link_speed below it on any link but the GPU's own. `lspci -vv` prints (downgraded).

    What to do: Reseat the card, change riser or cable, look into firmware setup (slot bifurcation, link
    speed). Look at an idle GPU's speed again under load.

    Why: A card not seated well, a bad riser or cable, a lane that failed training, or a firmware setting. An
    idle GPU lowers the speed of its link, never the width: its speed is noted, and not held against it.
    A slot that never had more lanes is no degraded link.

    Source: Linux drivers/pci/pci-sysfs.c; PCI Express Base Specification 5.0, 7.5.3.6 and 7.5.3.8.
    """
    address = end.address if isinstance(end, PciGpu) else nic_address(node, end.name)
    try:
        segments = links_to_root(node, address)
    except EvidenceAbsent:
        return NotApplicable("it has no PCIe link")
    for segment in segments:
        if segment.width < segment.best_width:
            return _failed(segment, f"x{segment.width}", f"x{segment.best_width}")
    for segment in segments:
        if segment.gt_per_s < segment.best_gt_per_s and not (
            isinstance(end, PciGpu) and segment.address == address
        ):
            return _failed(segment, f"{segment.gt_per_s:g} GT/s", f"{segment.best_gt_per_s:g} GT/s")
    own = segments[0]
    if own.gt_per_s < own.best_gt_per_s:
        return Passed(f"x{own.width}, idle at {own.gt_per_s:g} of {own.best_gt_per_s:g} GT/s")
    return Passed(f"{own.gt_per_s:g} GT/s x{own.width}")


def _failed(segment: Segment, seen: str, expected: str) -> Failed:
    return Failed(seen=seen, expected=expected, subject=segment.address)


@rule(
    "link-narrower-than-port",
    Layer.PCIE,
    per=nics,
    slows=REGISTRATION,
    cost="The port's rate cannot be reached through this device alone.",
)
def link_narrower_than_port(node: Node, device: RdmaDevice) -> Outcome:
    """The NIC's PCIe link carries less than its network port.

    Cost: One device reaches the link's rate, less headers (92 to 97 Gbit/s were measured on a Spark's), not
    the port's.

    How to tell: Speed times width of the narrowest link between NIC and root complex, less its encoding, is
    below the rate of the device's active ports. On a DGX Spark: 32 GT/s x4 = 126 Gbit/s for a port of 200
    Gbit/s.

    What to do: A wider slot. On a Spark, use both devices of a port (NCCL_IB_HCA): together they fill one
    cable, and a second cable adds nothing.

    Why: The card sits in a slot with few lanes, or the machine was built so. On a Spark one NIC hangs on two
    links of four lanes each, and every physical port shows up once on each.

    Source: Encodings of PCI Express Base 5.0, 4.2.1, and 6.0, 4.2.3; NVIDIA DGX Spark playbooks, performance
    benchmarking guide.
    """
    active = [port for port in ports(node, device.name) if port.state == "ACTIVE"]
    if not active:
        return NotApplicable("no active port")
    rate = sum(port.rate_gbit_per_s for port in active)
    try:
        segments = links_to_root(node, nic_address(node, device.name))
    except EvidenceAbsent:
        return NotApplicable("it has no PCIe link")
    narrowest = min(segments, key=lambda segment: segment.gbit_per_s)
    seen = f"{narrowest.gt_per_s:g} GT/s x{narrowest.width} = {narrowest.gbit_per_s:.0f} Gbit/s"
    if narrowest.gbit_per_s < rate:
        return Failed(
            seen=f"{seen} at {narrowest.address}", expected=f"{rate:g} Gbit/s", subject=device.name
        )
    return Passed(f"{seen} for {rate:g} Gbit/s")
