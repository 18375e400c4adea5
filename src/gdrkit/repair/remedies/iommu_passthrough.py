"""The kernel starts with the IOMMU in passthrough mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.passthrough import passthrough_argument, passthrough_costs_cuda
from gdrkit.facts.pci import gpus, iommu_type
from gdrkit.facts.rdma import nic_address, nics
from gdrkit.node import Node, Supposition, each_known
from gdrkit.repair.platforms.action import Action
from gdrkit.repair.platforms.boot_arguments import boot_argument
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """Only with an argument of this architecture, and where CUDA survives it."""
    argument = passthrough_argument(node)
    if passthrough_costs_cuda(node):
        raise EvidenceMissing(
            Missing(f"Linux 6.11, before which {argument} costs CUDA", MissingReason.ABSENT, "uname -r")
        )
    for gpu in gpus(node):
        yield iommu_type.becomes("identity", gpu.address)
    for address in each_known(lambda device: nic_address(node, device.name), nics(node)):
        yield iommu_type.becomes("identity", address)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Add the argument of this architecture to the kernel's command line."""
    del choices
    yield from boot_argument(node, platform, passthrough_argument(node), "iommu")


IOMMU_PASSTHROUGH = Remedy(
    name=RemedyName.IOMMU_PASSTHROUGH,
    title="boot the kernel with the IOMMU in passthrough mode",
    effect=_effect,
    changes=Change.ARGUMENT,
    becomes="the IOMMU does not translate the addresses of devices",
    risk="a faulty or malicious device can access all memory",
    undo="remove the argument from the kernel command line and reboot",
    needs_reboot=True,
    procedure=_procedure,
)
