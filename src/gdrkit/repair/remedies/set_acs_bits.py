"""Each port has the ACS bits that its layout needs, from the next boot on.

Bits that are x keep what the firmware left: the kernel starts from the firmware's register, not from its own
default (drivers/pci/pci.c, __pci_config_acs()). So each mask has every bit that matters, and ports for which
the kernel's default is right are left to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.acs_layout import (
    AcsLayout,
    LayoutNeeds,
    group,
    layout_needs,
    masks_to_configure,
    wrong_ports,
)
from gdrkit.facts.kernel import boot_parameter, release
from gdrkit.facts.pci import iommu_group
from gdrkit.facts.pci_registers import acs
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms.acs_arguments import config_acs, reads_config_acs, reads_lists
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.boot_arguments import boot_argument
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

_RDMA_TOPO = "usr/sbin/rdma_topo"
_UPDATE_GRUB = ("usr/sbin/update-grub", "usr/bin/update-grub")
_NEWER_KERNEL = (
    "install a kernel that reads every device of pci=config_acs=: Linux 6.15, a stable release of 6.12, "
    "6.13 or 6.14 since April 2025, or linux-nvidia-64k 6.14, which NVIDIA's guide asks for"
)
_GROUPS = "ls /sys/kernel/iommu_groups"
_CHECK = "sudo rdma_topo check"
_LOG = "sudo dmesg | grep 'Configured ACS to'"


def _effect(node: Node) -> Iterable[Supposition]:
    """The bits of every port; which groups the kernel then makes is seen after the boot alone."""
    needs = layout_needs(node)
    if needs is None or (not masks_to_configure(node) and _without_groups(node, needs)):
        raise EvidenceMissing(
            Missing("an IOMMU, with which the kernel sets these bits", MissingReason.ABSENT, _GROUPS)
        )
    for port, control in wrong_ports(node):
        register = acs(node, port.address)
        if register is not None:
            yield acs.becomes(replace(register, control=port.corrected(control)), port.address)
    for address in sorted({address for pair in needs.pairs for address in pair}):
        yield iommu_group.becomes(
            Missing(f"IOMMU group of {address} after the boot", MissingReason.UNDECIDED, _CHECK),
            address,
        )


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """The kernel argument for each port that the kernel's default does not serve, by rdma_topo if it can."""
    del choices
    needs = layout_needs(node)
    if needs is None:
        return
    masks, present = masks_to_configure(node), boot_parameter(node, "pci")
    if not masks:
        yield from _kernel_default(present)
        return
    running = if_missing("", release, node)
    lists = reads_lists(running)
    if not reads_config_acs(running) or (len(masks) > 1 and lists is False):
        yield AskPerson(what=_NEWER_KERNEL)
    if _has_rdma_topo(node) and not any("config_acs=" in value for value in present):
        yield AskPerson(
            what="let rdma_topo add these bits to GRUB's configuration; it runs update-grub itself",
            commands=("sudo rdma_topo write-grub-acs",),
        )
    else:
        others = tuple(port.address for port in needs.ports)
        yield from boot_argument(node, platform, config_acs(masks, present, drop=others), "acs")
    if len(masks) > 1:
        yield AskPerson(
            what=f"after the reboot, see that the kernel names all {len(masks)} ports: before Linux 6.15, "
            "some configure the first device alone",
            commands=(_LOG, _CHECK),
        )


def _kernel_default(present: tuple[str, ...]) -> Iterator[Action]:
    """Where every port needs what the kernel sets itself, something keeps it from doing so."""
    kept = [value for value in present if "config_acs=" in value or "disable_acs_redir=" in value]
    if kept:
        yield AskPerson(
            what=f"remove {', '.join(f'pci={value}' for value in kept)} from the kernel command line and "
            "reboot: every port of this layout needs the bits that the kernel sets itself"
        )
        return
    yield AskPerson(
        what="every port of this layout needs the bits that the kernel sets itself: see that the IOMMU is "
        "on, stop whatever runs setpci, and reboot",
        commands=("systemctl list-unit-files | grep -i acs", _GROUPS),
    )


def _without_groups(node: Node, needs: LayoutNeeds) -> bool:
    return not any(if_missing("?", group, node, gpu) for _, gpu in needs.pairs)


def _has_rdma_topo(node: Node) -> bool:
    """Whether rdma_topo can write the argument: it calls update-grub, which only Debian's family has. Before
    rdma-core 64 it knows Data Direct alone; its own `check` shows the result either way."""
    needs = layout_needs(node)
    if needs is None or needs.layout is not AcsLayout.DATA_DIRECT:
        return False
    return if_missing(False, node.exists, _RDMA_TOPO) and any(
        if_missing(False, node.exists, path) for path in _UPDATE_GRUB
    )


SET_ACS_BITS = Remedy(
    name=RemedyName.SET_ACS_BITS,
    title="start the kernel with the ACS bits that this layout needs",
    effect=_effect,
    changes=Change.ARGUMENT,
    becomes="each port has the ACS bits that its layout of GPUs and NICs needs",
    risk="devices below these ports share an IOMMU group: not for a host that passes single ones to guests",
    undo="remove the kernel argument (or /etc/default/grub.d/config-acs.cfg), then reboot",
    needs_reboot=True,
    procedure=_procedure,
)
