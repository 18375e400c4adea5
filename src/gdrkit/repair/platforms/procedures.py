"""Each step by its name, and how it is carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.driver_files import has_driver_container
from gdrkit.node import Node
from gdrkit.repair.platforms import fabric, loading, software
from gdrkit.repair.platforms.action import Action, AskPerson, Procedure
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.debian import DEBIAN
from gdrkit.repair.platforms.platform import Platform, family
from gdrkit.repair.platforms.rhel import RHEL
from gdrkit.repair.platforms.suse import SUSE
from gdrkit.rules.remedy_names import RemedyName

__all__ = ["PLATFORMS", "PROCEDURES", "procedure"]

PLATFORMS = (DEBIAN, RHEL, SUSE)
How = Callable[[Node, Platform, ProcedureChoices], Iterator[Action]]

PROCEDURES: Mapping[str, How] = {
    RemedyName.LOAD_DRIVER: software.load_driver,
    RemedyName.REBOOT: software.reboot,
    RemedyName.USE_DMABUF: loading.stop_loading,
    RemedyName.OPEN_KERNEL_MODULES: software.open_modules,
    RemedyName.UPGRADE_RDMA_CORE: software.upgrade_verbs,
    RemedyName.UPGRADE_NCCL: software.upgrade_nccl,
    RemedyName.SIGN_MODULE: loading.sign,
    RemedyName.ALLOW_MODULE: loading.allow,
    RemedyName.INSTALL_OFED: software.install_ofed,
    RemedyName.REBUILD_DRIVER: software.rebuild_driver,
    RemedyName.REMOVE_NV_PEER_MEM: loading.remove_legacy,
    RemedyName.LOAD_PEERMEM: loading.load,
    RemedyName.PERSIST_PEERMEM: software.persistent,
    RemedyName.OVERRIDE_TOPOLOGY_CHECK: software.allow_topology,
    RemedyName.CLEAR_ACS_REDIRECT: fabric.clear_redirect,
    RemedyName.IOMMU_PASSTHROUGH: fabric.passthrough,
    RemedyName.ENLARGE_BAR1: fabric.enlarge_bar,
    RemedyName.RAISE_MEMLOCK: software.memlock,
    RemedyName.RAISE_READ_REQUEST: fabric.read_request,
    RemedyName.CLEAN_NCCL_SETTINGS: software.clean_settings,
}
"""A remedy's name, and how it is carried out."""


_OPERATOR = (
    "the GPU Operator's container brings the driver, and builds it anew at each start: change its "
    "ClusterPolicy; gdr config gpu-operator writes the patch"
)


def procedure(
    node: Node, remedy: str, becomes: str, choices: ProcedureChoices, *, replaces_driver: bool = False
) -> Procedure:
    """The exact commands and files of a step on this node. Where the distribution is not known, or the
    evidence is not enough, it says what must become true, and invents no command."""
    platform = family(node, PLATFORMS)
    if platform is None:
        return Procedure(remedy=remedy, platform="", actions=(AskPerson(what=_must(becomes)),))
    if replaces_driver and has_driver_container(node):
        return Procedure(remedy=remedy, platform=platform.name, actions=(AskPerson(what=_OPERATOR),))
    try:
        actions = tuple(PROCEDURES[remedy](node, platform, choices))
    except EvidenceMissing as lacks:
        missing = lacks.missing
        asked = f"{_must(becomes)} (how, here, needs {missing.source}: {missing.ask})"
        return Procedure(remedy=remedy, platform=platform.name, actions=(AskPerson(what=asked),))
    return Procedure(remedy=remedy, platform=platform.name, actions=actions)


def _must(becomes: str) -> str:
    return f"see to it that {becomes}"
