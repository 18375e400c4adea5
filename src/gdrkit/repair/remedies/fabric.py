"""Remedies for GPUs, NICs and what is between them: power, ACS, IOMMU, BAR1, read requests."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.evidence import Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.acs_redirects import REDIRECTS, redirecting
from gdrkit.facts.commands import NVIDIA_SMI_MEMORY
from gdrkit.facts.driver_log import last_line
from gdrkit.facts.nvidia_smi import smi_memory
from gdrkit.facts.pci import gpus, iommu_type
from gdrkit.facts.pci_registers import acs, answers, bar1_bytes, read_request_bytes
from gdrkit.facts.rdma import nic_address, nics
from gdrkit.node import Node, Supposition, each_known
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.bar1 import NO_SPACE
from gdrkit.rules.read_request_small import WANTED_BYTES
from gdrkit.rules.remedy_names import RemedyName

LARGE_BAR1_BYTES = 1 << 37
"""Assumed size of a BAR1 that covers all GPU memory: 128 GiB, the BAR1 of an H100 with 80 GB."""


def _clear_redirects(node: Node) -> Iterable[Supposition]:
    """Bridges between a GPU and a NIC no longer redirect; those whose register was not read stay as they
    are."""
    for bridge, control in redirecting(node).items():
        found = acs(node, bridge)
        if found is not None:
            yield acs.becomes(replace(found, control=control & ~REDIRECTS), bridge)


def _passthrough(node: Node) -> Iterable[Supposition]:
    for address in _endpoints(node):
        yield iommu_type.becomes("identity", address)


def _endpoints(node: Node) -> Iterable[str]:
    """The PCI addresses of the GPUs and of the NICs."""
    yield from (gpu.address for gpu in gpus(node))
    yield from each_known(lambda device: nic_address(node, device.name), nics(node))


def _large_bar(node: Node) -> Iterable[Supposition]:
    """What was seen of the former window, in use or full, does not show how the new one is used."""
    for gpu in gpus(node):
        yield bar1_bytes.becomes(LARGE_BAR1_BYTES, gpu.address)
    yield smi_memory.becomes(Missing("use of BAR1", MissingReason.STALE, NVIDIA_SMI_MEMORY.line))
    yield last_line.becomes(None, NO_SPACE)


def _large_requests(node: Node) -> Iterable[Supposition]:
    for device in nics(node):
        yield read_request_bytes.becomes(WANTED_BYTES, nic_address(node, device.name))


def _power_cycle(node: Node) -> Iterable[Supposition]:
    """Whether a device that did not answer comes back is known only after the restart."""
    known = each_known(lambda address: (address, answers(node, address)), _endpoints(node))
    for address, answered in tuple(known):
        if not answered:
            missing = Missing(
                f"whether {address} answers", MissingReason.STALE, f"lspci -v -s {quoted(address)}"
            )
            yield answers.becomes(missing, address)


power_cycle = Remedy(
    name=RemedyName.POWER_CYCLE,
    title="drain the node, and restart it; if that does not help, with its power removed",
    effect=_power_cycle,
    becomes="the device answers again, unless it is broken",
    risk="everything on the machine stops; a device that is broken stays away",
    undo="not needed",
    needs_reboot=True,
)
disable_redirect = Remedy(
    name=RemedyName.CLEAR_ACS_REDIRECT,
    title="clear ACS redirection on the bridges between GPU and NIC only",
    effect=_clear_redirects,
    becomes="the switch forwards peer traffic directly",
    risk="devices below these bridges are no longer isolated; not for a host that passes them to guests",
    undo="remove what repeats it at each boot (gdrkit-acs.service or the kernel argument), then reboot, or "
    "restore the former value with setpci",
)
passthrough = Remedy(
    name=RemedyName.IOMMU_PASSTHROUGH,
    title="boot the kernel with iommu=pt",
    effect=_passthrough,
    becomes="the IOMMU does not translate the addresses of devices",
    risk="a faulty or malicious device can access all memory",
    undo="remove iommu=pt from the kernel command line and reboot",
    needs_reboot=True,
)
enlarge_bar = Remedy(
    name=RemedyName.ENLARGE_BAR1,
    title="turn on Above 4G Decoding and Resizable BAR in the firmware setup",
    effect=_large_bar,
    becomes="BAR1 covers all GPU memory",
    risk="an old operating system or card may not start with it",
    undo="turn both off again in the firmware setup",
    needs_reboot=True,
)
large_requests = Remedy(
    name=RemedyName.RAISE_READ_REQUEST,
    title="set the PCIe read requests of the NICs to 4096 bytes",
    effect=_large_requests,
    becomes="MaxReadReq of each NIC is 4096 bytes until the next boot",
    risk="other devices below the same port may wait longer; measure before and after",
    undo="restore the former value with setpci, or reboot",
)
