"""Which remedies the platform of a node can carry out, by whom, and in which words.

What offers a remedy asks here: plans, `gdr fix`, the first screen of `gdr doctor`, pages and the fleet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.facts.driver_files import has_driver_container
from gdrkit.facts.kubernetes import OFED_READY, deploys_ofed, runs_pods
from gdrkit.facts.secure_boot import firmware_is_efi
from gdrkit.facts.virtual import scope, virtual_machine
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.immutable_systems import ImmutableSystem, immutable
from gdrkit.rules.remedy_names import RemedyName

if TYPE_CHECKING:
    from gdrkit.repair.remedies.remedy import Remedy

OPERATOR = "gpu-operator"
CONTAINER = "container"


class Means(Struct, frozen=True, kw_only=True):
    """How a platform carries out a remedy."""

    platform: str  # debian, talos, gpu-operator, container, ...; "" if the distribution is not known
    cannot: str = ""  # why it cannot; "" if it can
    risk: str
    undo: str
    needs_root: bool
    needs_reboot: bool


def means(node: Node, remedy: Remedy) -> Means:
    """How this node's platform carries out a remedy, or why it cannot.

    In a container the files of a system are those of its image, so they do not tell the host's platform."""
    if if_missing("host", scope, node) == "container":
        return _in_container(remedy)
    if by_pods(node, remedy):
        return Means(platform=platform_of(node), risk=remedy.risk, undo="take the capability from the pods",
                     needs_root=False, needs_reboot=False)  # fmt: skip
    system = immutable(node)
    if remedy.changes is Change.FIRMWARE and if_missing("none", virtual_machine, node) != "none":
        return _plain(node, remedy, "a virtual machine has no firmware of the real one: its host decides")
    if remedy.changes is Change.SIGNATURE and not if_missing(True, firmware_is_efi, node):
        # shim keeps the owner's keys, and the kernel takes others from the firmware: load_uefi_certs()
        return _plain(node, remedy, "a machine without UEFI has no list of its owner's keys")
    if has_driver_container(node) or (system is not None and system.operators):
        found = _by_operator(node, remedy)
        if found is not None and system is not None and (why := _never(system, remedy)):
            return replace(found, cannot=found.cannot or f"on {system.title}, {why}")
        if found is not None:
            return found
    if system is not None:
        return _by_image(system, remedy)
    return _plain(node, remedy)


def by_pods(node: Node, remedy: Remedy) -> bool:
    """Whether the pods of a job are given what a limit of the host would give them: where programs run in
    pods, but for OpenShift, whose MachineConfig sets that of its runtime."""
    system = immutable(node)
    in_pods = remedy.changes is Change.LIMIT and if_missing(False, runs_pods, node)
    return in_pods and not (system is not None and system.operators)


def _plain(node: Node, remedy: Remedy, cannot: str = "") -> Means:
    """On a host with packages and files, or one of a distribution that is not known."""
    is_lost = if_missing(False, runs_pods, node) and remedy.changes in _OF_FILES
    return Means(
        platform=_family(node),
        cannot=cannot,
        risk=f"{remedy.risk}; {_REPLACED}" if is_lost else remedy.risk,
        undo=remedy.undo,
        needs_root=remedy.needs_root,
        needs_reboot=remedy.needs_reboot,
    )


_OF_FILES = (Change.ARGUMENT, Change.OPTION, Change.LOADING, Change.PEERMEM, Change.SIGNATURE)
_REPLACED = (
    "where nodes are replaced, as in a cloud's node groups, a new one lacks it: change their image or user "
    "data too"
)


def platform_of(node: Node) -> str:
    """What decides how something is changed on a node: container, gpu-operator, talos, debian, ...; "" if
    its distribution is not known."""
    if if_missing("host", scope, node) == "container":
        return CONTAINER
    if has_driver_container(node):
        return OPERATOR
    system = immutable(node)
    return system.name if system else _family(node)


def _family(node: Node) -> str:
    """The family of a node's distribution; "" if it is not known. Loaded here: a container needs none."""
    from gdrkit.repair.platforms.families import family

    found = family(node)
    return found.name if found else ""


def has_packages(node: Node) -> bool:
    """Whether nothing but packages and files of the host decides; true also of an unknown distribution."""
    inside = if_missing("host", scope, node) == "container"
    return not inside and not has_driver_container(node) and immutable(node) is None


def can_do(node: Node, remedy: Remedy) -> bool:
    """Whether the platform can carry it out: a remedy that it cannot is not offered."""
    return not means(node, remedy).cannot


def is_possible(node: Node, name: str) -> bool:
    """Whether the platform can carry out the remedy of that name."""
    from gdrkit.repair.remedies import remedy_of

    return can_do(node, remedy_of(name))


# -- in a container --


def _in_container(remedy: Remedy) -> Means:
    of_job = remedy.changes is Change.JOB
    return Means(
        platform=CONTAINER,
        risk=remedy.risk,
        undo=remedy.undo if of_job else "ask the same person to undo it",
        needs_root=remedy.needs_root and not of_job,
        needs_reboot=remedy.needs_reboot,
    )


# -- on a system that boots an image --

_ELSEWHERE = (Change.JOB, Change.FIRMWARE, Change.REGISTER)
_UNDO = {
    Change.JOB: "change it back in the image or environment of the job",
    Change.REGISTER: "set the former values in the same way, or reboot",
    Change.RESTART: "not needed",
    Change.DRIVER: "go back to the former image",
    Change.SERVICE: "go back to the former image",
}


def _never(system: ImmutableSystem, remedy: Remedy) -> str:
    """Why the kernel of a system refuses it, whoever installs it; "" if it does not."""
    needs = Change.PEERMEM if remedy.paths == ("peermem",) else remedy.changes
    return system.cannot.get(needs, "") if needs in (Change.OFED, Change.PEERMEM, Change.SIGNATURE) else ""


def _by_image(system: ImmutableSystem, remedy: Remedy) -> Means:
    change = Change.ARGUMENT if remedy.name == RemedyName.RELEASE_GPU else remedy.changes
    if remedy.driver_options is not None and Change.OPTION not in system.ways:
        change = Change.OPTION  # another driver alone is half of it
    way = system.ways.get(change)
    cannot = ""
    if remedy.paths == ("peermem",) and Change.PEERMEM in system.cannot:
        change, way = Change.PEERMEM, None
    if way is None and change not in _ELSEWHERE:
        cannot = (
            f"on {system.title}, {system.cannot.get(change, 'the image decides, and has no setting for it')}"
        )
    return Means(
        platform=system.name,
        cannot=cannot,
        risk=remedy.risk,
        undo=_UNDO.get(change, "change the setting back"),
        needs_root=False,
        needs_reboot=remedy.needs_reboot if way is None else way.reboots,
    )


# -- where the GPU Operator's container installs the driver --

_POLICY = (Change.OPTION, Change.OFED, Change.PEERMEM, Change.WITHOUT_PEERMEM)
_POD = (Change.DRIVER, Change.SERVICE)
_OF_CLUSTER = (
    "the policy holds for the whole cluster: the operator replaces the driver's pods on every node that it "
    "selects, by default one node after the other, and evicts the pods that use the devices there"
)
"""Source: NVIDIA GPU Operator, GPU Driver Upgrades: the upgrade controller, which is enabled by default."""
_CANNOT = {
    RemedyName.SIGN_MODULE: "the GPU Operator's container builds the modules at each start, without a key "
    "of yours; images with usePrecompiled: true have modules that Canonical signs",
    RemedyName.ALLOW_MODULE: "the GPU Operator's container does not read the host's modprobe.d",
    RemedyName.ALLOW_UNSUPPORTED: "the GPU Operator's container does not read the host's modprobe.d",
}


def _by_operator(node: Node, remedy: Remedy) -> Means | None:
    """None for what is done on the host all the same."""
    of_policy = remedy.changes in _POLICY or remedy.name == RemedyName.OPEN_KERNEL_MODULES
    of_pod = remedy.changes in _POD or remedy.name == RemedyName.REBOOT
    if remedy.name == RemedyName.RESTART_OFED and not has_ofed_container(node):
        return None
    if not of_policy and not of_pod and remedy.name not in _CANNOT:
        return None
    patches = of_policy or remedy.driver_options is not None or remedy.name == RemedyName.REBUILD_DRIVER
    return Means(
        platform=OPERATOR,
        cannot=_CANNOT.get(remedy.name, ""),
        risk=f"{remedy.risk}; {_OF_CLUSTER}" if patches else remedy.risk,
        undo="apply the former values of these fields" if of_policy else "not needed",
        needs_root=False,
        needs_reboot=False,
    )


def has_ofed_container(node: Node) -> bool:
    """Whether the Network Operator's container brings the OFED. False also where that is not known."""
    return bool(if_missing(None, deploys_ofed, node)) or if_missing(False, node.exists, OFED_READY)
