"""Remedies for single programs: newer versions, settings of their jobs, and devices of their containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.rdma import character_device, has_device_file, rdma_devices
from gdrkit.facts.virtual import scope
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node, Supposition, each_known, if_absent
from gdrkit.programs.consumer import Consumer
from gdrkit.programs.environment import SYSTEM, ProgramSetting, environment
from gdrkit.programs.mooncake.consumer import MOONCAKE, NEWEST_READ, SWITCH, has_switch
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.programs.nvshmem.facts import nvshmem_copies
from gdrkit.programs.ucx.consumer import UCX
from gdrkit.programs.ucx.facts import ucx_version
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.capabilities import Path
from gdrkit.rules.remedy_names import RemedyName


def _mooncake(path: Path) -> Callable[[Node], Iterable[Supposition]]:
    """Mooncake registers memory in this way only. Releases without the switch have to be built anew."""

    def effect(node: Node) -> Iterable[Supposition]:
        copies = if_absent((LibraryCopy(NEWEST_READ, ""),), MOONCAKE.copies, node)
        if not all(has_switch(copy.version) for copy in copies):
            raise EvidenceMissing(
                Missing(f"a Mooncake with {SWITCH}", MissingReason.ABSENT, "pip list | grep -i mooncake")
            )
        found = environment(node, SYSTEM)
        others = (setting for setting in found.settings if setting.name != SWITCH)
        chosen = ProgramSetting(SWITCH, str(int(path is Path.PEERMEM)), SYSTEM, 0)
        yield environment.becomes(replace(found, settings=(*others, chosen)), SYSTEM)

    return effect


def _newer_nvshmem(node: Node) -> Iterable[Supposition]:
    _older_than_complete(NVSHMEM, (copy.version for copy in nvshmem_copies(node)))
    yield nvshmem_copies.becomes((LibraryCopy(NVSHMEM.complete_since, "the newer NVSHMEM"),))


def _newer_ucx(node: Node) -> Iterable[Supposition]:
    _older_than_complete(UCX, (ucx_version(node),))
    yield ucx_version.becomes(UCX.complete_since)


def _older_than_complete(program: Consumer, versions: Iterable[str]) -> None:
    """Raise if no version is older than the first one that supports everything."""
    if all(map(program.is_complete, versions)):
        raise EvidenceMissing(Missing(f"an old {program.title}", MissingReason.ABSENT, ""))


def _give_devices(node: Node) -> Iterable[Supposition]:
    """Only a container lacks them, and only those that the kernel has."""
    if scope(node) != "container":
        raise EvidenceMissing(Missing("a container", MissingReason.ABSENT, "cat /proc/1/cgroup"))
    known = each_known(lambda device: (device, character_device(node, device.name)), rdma_devices(node))
    for device, _ in known:
        yield has_device_file.becomes(True, device.name)


mooncake_dmabuf = Remedy(
    name=RemedyName.MOONCAKE_USE_DMABUF,
    title=f"set {SWITCH}=0 for the jobs of Mooncake",
    effect=_mooncake(Path.DMABUF),
    becomes="Mooncake registers GPU memory as a dma-buf",
    risk="it does not use nvidia-peermem any more; memory of several physical handles, as of PyTorch's "
    "expandable segments, may be refused",
    undo="remove the variable",
    needs_root=False,
    paths=(Path.DMABUF,),
)
mooncake_peermem = Remedy(
    name=RemedyName.MOONCAKE_USE_PEERMEM,
    title=f"set {SWITCH}=1 for the jobs of Mooncake",
    effect=_mooncake(Path.PEERMEM),
    becomes="Mooncake registers GPU memory by its address, through nvidia-peermem",
    risk="it does not use dma-buf any more",
    undo="remove the variable",
    needs_root=False,
    paths=(Path.PEERMEM,),
)
upgrade_nvshmem = Remedy(
    name=RemedyName.UPGRADE_NVSHMEM,
    title=f"use {NVSHMEM.modern} in the image or environment of the job",
    effect=_newer_nvshmem,
    becomes="NVSHMEM detects nvidia-peermem wherever it is loaded",
    risk="programs that contain NVSHMEM's device code, such as DeepEP, must be built again",
    undo="install the previous version",
    needs_root=False,
)
upgrade_ucx = Remedy(
    name=RemedyName.UPGRADE_UCX,
    title=f"use {UCX.modern} in the image or environment of the job",
    effect=_newer_ucx,
    becomes="UCX detects nvidia-peermem and supports dma-buf",
    risk="MPI and other programs that bring a UCX of their own do not change",
    undo="install the previous version",
    needs_root=False,
)
give_devices = Remedy(
    name=RemedyName.GIVE_CONTAINER_DEVICES,
    title="start the container with the RDMA devices of its host",
    effect=_give_devices,
    becomes="programs in the container can open the RDMA devices",
    risk="the container can use the network past the host's firewall",
    undo="start the container without them",
    needs_root=False,
)
