"""Each step by its name, and how it is carried out. PURE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gdrkit.evidence import Lacks
from gdrkit.facts.driver_files import has_driver_container
from gdrkit.node import Node
from gdrkit.platforms import fabric, loading, software
from gdrkit.platforms.action import Action, AskPerson, Procedure
from gdrkit.platforms.choices import Choices
from gdrkit.platforms.debian import DEBIAN
from gdrkit.platforms.platform import Platform, family
from gdrkit.platforms.rhel import RHEL
from gdrkit.platforms.suse import SUSE

__all__ = ["PLATFORMS", "PROCEDURES", "procedure"]

PLATFORMS = (DEBIAN, RHEL, SUSE)
How = Callable[[Node, Platform, Choices], Iterator[Action]]

PROCEDURES: Mapping[str, How] = {
    "load-driver": software.load_driver,
    "reboot": software.reboot,
    "use-dmabuf": loading.stop_loading,
    "open-kernel-modules": software.open_modules,
    "upgrade-rdma-core": software.upgrade_verbs,
    "upgrade-nccl": software.upgrade_nccl,
    "sign-module": loading.sign,
    "allow-module": loading.allow,
    "install-ofed": software.install_ofed,
    "rebuild-driver": software.rebuild_driver,
    "remove-nv-peer-mem": loading.remove_legacy,
    "load-peermem": loading.load,
    "persist-peermem": software.persistent,
    "override-topology-check": software.allow_topology,
    "clear-acs-redirect": fabric.clear_redirect,
    "iommu-passthrough": fabric.passthrough,
    "enlarge-bar1": fabric.enlarge_bar,
    "raise-memlock": software.memlock,
    "raise-read-request": fabric.read_request,
    "clean-nccl-settings": software.clean_settings,
}
"""A remedy's name, and how it is carried out."""


OF_THE_DRIVER = frozenset(
    ("load-driver", "open-kernel-modules", "sign-module", "rebuild-driver", "install-ofed")
)
_OPERATOR = (
    "the GPU Operator's container brings the driver, and builds it anew at each start: change its "
    "ClusterPolicy; gdr config gpu-operator writes the patch"
)


def procedure(node: Node, remedy: str, becomes: str, choices: Choices) -> Procedure:
    """The exact commands and files of a step on this node. Where the distribution is not known, or the
    evidence is not enough, it says what must become true, and invents no command."""
    platform = family(node, PLATFORMS)
    if platform is None:
        return Procedure(remedy=remedy, platform="", actions=(AskPerson(what=_must(becomes)),))
    if remedy in OF_THE_DRIVER and has_driver_container(node):
        return Procedure(remedy=remedy, platform=platform.name, actions=(AskPerson(what=_OPERATOR),))
    try:
        actions = tuple(PROCEDURES[remedy](node, platform, choices))
    except Lacks as lacks:
        missing = lacks.missing
        asked = f"{_must(becomes)} (how, here, needs {missing.source}: {missing.ask})"
        return Procedure(remedy=remedy, platform=platform.name, actions=(AskPerson(what=asked),))
    return Procedure(remedy=remedy, platform=platform.name, actions=actions)


def _must(becomes: str) -> str:
    return f"see to it that {becomes}"
