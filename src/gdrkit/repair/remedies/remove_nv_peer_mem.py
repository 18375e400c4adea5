"""nv_peer_mem and its service are gone, so that nvidia-peermem can register."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import Missing, MissingReason
from gdrkit.facts.driver import LegacyPeerMem, legacy_peer_mem
from gdrkit.facts.module_index import module_path
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.packages import installed
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms.action import Action, RemoveFile, RunCommand
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import DEPMOD, comment_out_autoload, depmod
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

LEGACY_PACKAGES = ("nvidia-peer-memory", "nvidia-peer-memory-dkms", "nvidia_peer_memory",
                   "nvidia_peer_memory-dkms", "nv_peer_memory")  # fmt: skip
"""Names of nv_peer_mem's packages, deb and rpm: Mellanox/nv_peer_memory debian/control, the spec file."""
_SERVICE_FILES = ("etc/init.d/nv_peer_mem", "usr/lib/systemd/system/nv_peer_mem.service",
                  "lib/systemd/system/nv_peer_mem.service")  # fmt: skip


def _effect(node: Node) -> Iterable[Supposition]:
    yield legacy_peer_mem.becomes(LegacyPeerMem(loaded=False, path=""))
    yield is_loaded.becomes(False, LEGACY)
    yield module_path.becomes(Missing(LEGACY, MissingReason.ABSENT, f"modinfo -n {LEGACY}"), LEGACY)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Disable the service, unload the module, and remove its packages, or its file if no package owns it."""
    del choices
    if any(if_missing(False, node.exists, path) for path in _SERVICE_FILES):
        yield RunCommand(
            argv=("systemctl", "disable", "--now", "nv_peer_mem"),
            why="this service would load it again",
            undo=(("systemctl", "enable", "nv_peer_mem"),),
            never_executed=True,
        )
    yield from comment_out_autoload(node, LEGACY, "do not load it at boot: nvidia-peermem replaces it")
    if is_loaded_for_sure(node, LEGACY):
        yield RunCommand(argv=("rmmod", LEGACY), why="it occupies the name nv_mem",
                         undo=(("modprobe", LEGACY),))  # fmt: skip
    packages = _legacy_packages(node)
    if packages:
        again = tuple(platform.with_version.format(name=n, version=v) for n, v in packages.items())
        yield RunCommand(
            argv=(*platform.remove, *packages),
            why="remove its packages",
            undo=((*platform.install, *again),),
            never_executed=True,
        )
    elif path := _legacy_file(node):
        yield RemoveFile(path=f"/{path}", why="no package owns it")
        yield depmod(node, "remove it from the index of modules")


def _legacy_packages(node: Node) -> dict[str, str]:
    known = if_missing({}, installed, node)
    return {name: known[name].version for name in LEGACY_PACKAGES if name in known}


def _legacy_file(node: Node) -> str:
    return if_missing("", module_path, node, LEGACY)


REMOVE_NV_PEER_MEM = Remedy(
    name=RemedyName.REMOVE_NV_PEER_MEM,
    title="remove nv_peer_mem and its service",
    effect=_effect,
    changes=Change.LOADING,
    becomes="the client name that nvidia-peermem registers is free",
    risk="GPUDirect RDMA does not work until nvidia-peermem is loaded",
    undo="reinstall nvidia-peer-memory-dkms",
    paths=("peermem",),
    procedure=_procedure,
    commands=(
        "systemctl disable --now nv_peer_mem",
        "systemctl enable nv_peer_mem",
        "rmmod nv_peer_mem",
        "modprobe nv_peer_mem",
        *DEPMOD,
    ),
)
