"""How each step is carried out, by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.driver_files import has_driver_container
from gdrkit.facts.kernel import release
from gdrkit.node import Node
from gdrkit.repair.platforms import driver_packages, fabric, loading, programs, software
from gdrkit.repair.platforms.action import Action, AskPerson, Procedure
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.command_shapes import fault, is_release
from gdrkit.repair.platforms.debian import DEBIAN
from gdrkit.repair.platforms.operator import change_policy
from gdrkit.repair.platforms.platform import Platform, family
from gdrkit.repair.platforms.rhel import RHEL
from gdrkit.repair.platforms.suse import SUSE
from gdrkit.rules.remedy_names import RemedyName

__all__ = ["PLATFORMS", "PROCEDURES", "procedure_for"]

PLATFORMS = (DEBIAN, RHEL, SUSE)
Planner = Callable[[Node, Platform, ProcedureChoices], Iterator[Action]]

PROCEDURES: Mapping[str, Planner] = {
    RemedyName.BUILD_DRIVER_FOR_KERNEL: driver_packages.for_kernel,
    RemedyName.LOAD_DRIVER: software.load_driver,
    RemedyName.REBOOT: software.reboot,
    RemedyName.POWER_CYCLE: fabric.power_cycle,
    RemedyName.USE_DMABUF: loading.stop_loading,
    RemedyName.OPEN_KERNEL_MODULES: software.open_modules,
    RemedyName.UPGRADE_RDMA_CORE: software.upgrade_verbs,
    RemedyName.UPGRADE_NCCL: software.upgrade_nccl,
    RemedyName.SIGN_MODULE: loading.sign,
    RemedyName.ALLOW_MODULE: loading.allow,
    RemedyName.INSTALL_OFED: software.install_ofed,
    RemedyName.RESTART_OFED: software.restart_ofed,
    RemedyName.REBUILD_DRIVER: software.rebuild_driver,
    RemedyName.REMOVE_NV_PEER_MEM: loading.remove_legacy,
    RemedyName.LOAD_PEERMEM: loading.load,
    RemedyName.PERSIST_PEERMEM: software.persistent,
    RemedyName.OVERRIDE_TOPOLOGY_CHECK: loading.set_options(
        RemedyName.OVERRIDE_TOPOLOGY_CHECK, "the driver maps GPU memory regardless of the PCIe topology"
    ),
    RemedyName.CLEAR_ACS_REDIRECT: fabric.clear_redirect,
    RemedyName.IOMMU_PASSTHROUGH: fabric.passthrough,
    RemedyName.ENLARGE_BAR1: fabric.enlarge_bar,
    RemedyName.RAISE_MEMLOCK: software.memlock,
    RemedyName.RAISE_READ_REQUEST: fabric.read_request,
    RemedyName.ALLOW_PEER_MAPPING: loading.set_options(
        RemedyName.ALLOW_PEER_MAPPING, "the driver lets a GPU map the NIC's doorbell for any user"
    ),
    RemedyName.CREATE_IMEX_CHANNEL: loading.set_options(
        RemedyName.CREATE_IMEX_CHANNEL, "the driver makes /dev/nvidia-caps-imex-channels/channel0"
    ),
    RemedyName.MOONCAKE_USE_DMABUF: programs.mooncake_dmabuf,
    RemedyName.MOONCAKE_USE_PEERMEM: programs.mooncake_peermem,
    RemedyName.UPGRADE_NVSHMEM: programs.newer_nvshmem,
    RemedyName.UPGRADE_UCX: programs.newer_ucx,
    RemedyName.GIVE_CONTAINER_DEVICES: programs.give_devices,
    RemedyName.CLEAN_NCCL_SETTINGS: software.clean_settings,
}
"""The function that plans a remedy's actions, by the remedy's name."""


def procedure_for(
    node: Node, remedy: str, becomes: str, choices: ProcedureChoices, *, replaces_driver: bool = False
) -> Procedure:
    """The exact commands and files of a step on this node.

    If the distribution is not supported, or evidence is missing, the procedure only says what to achieve.
    """
    platform = family(node, PLATFORMS)
    if platform is None:
        return Procedure(remedy=remedy, platform="", actions=(AskPerson(what=_achieve(becomes)),))
    in_container = replaces_driver and has_driver_container(node)
    try:
        actions = tuple(
            change_policy(node, remedy) if in_container else PROCEDURES[remedy](node, platform, choices)
        )
    except EvidenceMissing as error:
        missing = error.missing
        what = f"{_achieve(becomes)} (no exact commands: {missing.source} is missing; {missing.ask})"
        return Procedure(remedy=remedy, platform=platform.name, actions=(AskPerson(what=what),))
    if wrong := next(filter(None, (_unusual_release(node), *map(fault, actions))), ""):
        what = f"{_achieve(becomes)} (no exact commands: {wrong})"
        return Procedure(remedy=remedy, platform=platform.name, actions=(AskPerson(what=what),))
    return Procedure(remedy=remedy, platform=platform.name, actions=actions)


def _unusual_release(node: Node) -> str:
    """Why the kernel's release fits no command; "" if it does, or is only not collected."""
    try:
        kernel = release(node)
    except EvidenceMissing as error:
        return error.missing.ask if error.missing.why is MissingReason.GARBLED else ""
    return "" if is_release(kernel) else f"not a kernel release: {kernel}"


def _achieve(becomes: str) -> str:
    return f"make sure that {becomes}"
