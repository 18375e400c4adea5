"""PCIe links with less bandwidth than they should have."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.acs_layout import is_behind_cpu
from gdrkit.facts.gpu import has_gb10
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.pci_path import Segment, links_to_root
from gdrkit.facts.rdma import RdmaDevice, nic_address, nics, ports
from gdrkit.facts.soldered_link import full_link
from gdrkit.facts.virtual import virtual_machine
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import WIRE, Failed, Layer, NotApplicable, Outcome, Passed, rule

_LINKED = ("ACTIVE", "ARMED", "INIT")
"""States of a port whose cable has a link, so that its rate is real: InfiniBand specification, 14.2.5.6."""


_LSPCI = "sudo lspci -vv"
_MARKED = "`(downgraded)` in `LnkSta`, and a `LnkCap` of the port above that allows {}"


def gpus_and_nics(node: Node) -> Iterator[PciGpu | RdmaDevice]:
    """Every device that a pair can have."""
    yield from gpus(node)
    yield from nics(node)


@rule(
    "link-degraded",
    Layer.PCIE,
    per=gpus_and_nics,
    slows=(WIRE,),
    reported_by=(DecidingCommand(_LSPCI, _MARKED.format("more")),),
    cost="The slowest link on the path limits all transfers.",
    references=("https://docs.kernel.org/PCI/sysfs-pci.html",),
)
def link_degraded(node: Node, end: PciGpu | RdmaDevice) -> Outcome:
    """A PCIe link runs narrower or slower than both its ends can.

    Cost: Bandwidth drops in proportion.

    How to tell: `cat /sys/bus/pci/devices/<address>/current_link_width` prints less than max_link_width of
    both the device and the port above it; or current_link_speed is below both values of max_link_speed, on
    any link but the GPU's own. `sudo lspci -vv -s <address>` prints (downgraded), which compares with what
    this end can do: LnkCap of the port above it shows the other.

    What to do: Reseat the card, change the riser or cable, and check the firmware setup (slot bifurcation,
    link speed). A NIC on the board, as in a DGX Spark, has no slot: update its firmware, then ask the maker.
    Check an idle GPU's speed again under load.

    Why: The card is not seated well, a riser or cable is bad, a lane failed training, or a firmware setting
    limits the link. An idle GPU lowers the speed of its link, but never the width: a low speed of its own
    link is not counted as degraded. A slot that never had more lanes is not a degraded link.

    Source: Linux drivers/pci/pci-sysfs.c; PCI Express Base Specification 5.0, 7.5.3.6 and 7.5.3.8; pciutils
    ls-caps.c, link_compare().
    """
    if isinstance(end, PciGpu) and is_behind_cpu(node, end):
        return NotApplicable("NICs reach its memory over NVLink-C2C, and not over its PCIe link")
    address = end.address if isinstance(end, PciGpu) else nic_address(node, end.name)
    try:
        segments = _real_links(node, address)
    except EvidenceAbsent:
        return NotApplicable("the device has no PCIe link")
    advice = UPDATE_FIRMWARE if isinstance(end, RdmaDevice) and full_link(node, address) else ""
    for segment in segments:
        if segment.width < segment.best_width:
            return _failed(segment, f"x{segment.width}", f"x{segment.best_width}", advice)
    for segment in segments:
        if segment.gt_per_s < segment.best_gt_per_s and not (
            isinstance(end, PciGpu) and segment.address == address
        ):
            return _failed(segment, f"{segment.gt_per_s:g} GT/s", f"{segment.best_gt_per_s:g} GT/s", advice)
    own = segments[0]
    if own.gt_per_s < own.best_gt_per_s:
        return Passed(f"x{own.width}, idle at {own.gt_per_s:g} of {own.best_gt_per_s:g} GT/s")
    return Passed(f"{own.gt_per_s:g} GT/s x{own.width}")


def _real_links(node: Node, address: str) -> tuple[Segment, ...]:
    """The links from a device to the root complex; in a virtual machine the device's own alone: the bridges
    above it are the hypervisor's, with made-up speeds. Raises EvidenceAbsent if it has none."""
    links = tuple(links_to_root(node, address))
    return links[:1] if if_missing("none", virtual_machine, node) != "none" else links


def _failed(segment: Segment, seen: str, expected: str, advice: str) -> Failed:
    return Failed(seen=seen, expected=expected, subject=segment.address, advice=advice)


@rule(
    "link-narrower-than-port",
    Layer.PCIE,
    per=nics,
    slows=(WIRE,),
    reported_by=(DecidingCommand(_LSPCI, _MARKED.format("no more")),),
    cost="The port's rate cannot be reached through this device alone.",
)
def link_narrower_than_port(node: Node, device: RdmaDevice) -> Outcome:
    """The NIC's PCIe link carries less than its network port.

    Cost: One device reaches only the link's rate, less headers (92 to 97 Gbit/s were measured on a
    Spark's), not the port's.

    How to tell: Find the narrowest link between the NIC and the root complex, with `sudo lspci -vv`
    (LnkSta). Its speed times its width, less the encoding, is below the rate of the device's ports with a
    link, in state ACTIVE, ARMED or INIT
    (`cat /sys/class/infiniband/<device>/ports/*/rate`). On a DGX Spark: 32 GT/s x4 = 126 Gbit/s for a port
    of 200 Gbit/s.

    What to do: Use a slot with more lanes, of the CPU and not of the chipset; the firmware setup may split
    the lanes of one (bifurcation). Do nothing where the link is at least as fast as the port. On a Spark,
    use both devices of a port (NCCL_IB_HCA): together they fill one cable, and a second cable adds nothing.
    A Spark's link with fewer lanes than its NIC can have is not built so: update the machine's firmware,
    `sudo fwupdmgr refresh` and `sudo fwupdmgr update`.

    Why: The card is in a slot with few lanes, or the machine was built that way. On a Spark one NIC has two
    links of four lanes each, and every physical port appears once on each. Some relatives of it gave one
    link two lanes, with firmware from before April 2026.

    Source: Encodings of PCI Express Base 5.0, 4.2.1, and 6.0, 4.2.3; NVIDIA DGX Spark playbooks,
    performance benchmarking guide; DGX Spark User Guide, component update.
    """
    linked = [port for port in ports(node, device.name) if port.state in _LINKED]
    if not linked:
        return NotApplicable("no port has a link")
    rate = sum(port.rate_gbit_per_s for port in linked)
    try:
        segments = _real_links(node, nic_address(node, device.name))
    except EvidenceAbsent:
        return NotApplicable("the device has no PCIe link")
    narrowest = min(segments, key=lambda segment: segment.gbit_per_s)
    seen = f"{narrowest.gt_per_s:g} GT/s x{narrowest.width} = {narrowest.gbit_per_s:.0f} Gbit/s"
    if narrowest.gbit_per_s < rate:
        if narrowest is not segments[0]:
            virtual_machine(node)  # not known: the bridge may be a hypervisor's, with a made-up speed
            seen = f"{seen} at {narrowest.address}"
        return _narrow(node, device, seen, rate)
    return Passed(f"{seen} for {rate:g} Gbit/s")


def _narrow(node: Node, device: RdmaDevice, seen: str, rate: float) -> Failed:
    """A link that carries less than the ports, as the machine is built, or with fewer lanes than that."""
    if full := full_link(node, nic_address(node, device.name)):
        expected = f"{full}, as this machine is built"
        return Failed(seen=seen, expected=expected, subject=device.name, advice=UPDATE_FIRMWARE)
    soldered = if_missing(False, has_gb10, node)
    return Failed(
        seen=f"{seen}, as this machine is built" if soldered else seen,
        expected=f"{rate:g} Gbit/s" + (" by both links of the port" if soldered else ""),
        subject=device.name,
        as_expected=soldered,
    )


UPDATE_FIRMWARE = (
    "Update the firmware of the machine, by `sudo fwupdmgr refresh` and `sudo fwupdmgr update`, and boot "
    "again: some versions from before April 2026 use two lanes of four. If it stays so, ask the maker."
)
"""Sources: docs.nvidia.com/dgx/dgx-spark, os-and-component-update, for the commands; for two lanes of four,
forums.developer.nvidia.com, topic 367853, an ASUS GX10 with a BIOS of January 2026 beside Sparks with x4."""
