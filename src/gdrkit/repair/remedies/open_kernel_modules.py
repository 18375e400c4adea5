"""The open kernel modules of the same driver branch replace the proprietary ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import disk_driver_flavour, disk_driver_version, driver_flavour
from gdrkit.facts.driver_files import DRIVER, driver_path, peermem_path
from gdrkit.facts.gpu import any_before_turing
from gdrkit.facts.kernel import release
from gdrkit.facts.machine import distribution
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.packages import installed
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.facts.trust import signature_check
from gdrkit.formats.regex import regex
from gdrkit.node import Node, Supposition, each_known, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import refresh_if_there
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.predicted_load import signature_when_built
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName

_PREBUILT = regex(r"linux-modules-nvidia-(?P<branch>\d+)(?P<server>-server)?-(?!open)")
_BY_HAND = AskPerson(what="install the open kernel modules of the driver branch in use")


def _effect(node: Node) -> Iterable[Supposition]:
    """The flavour of the new modules is known; their signer is not."""
    if driver_flavour(node) == "open":
        raise EvidenceMissing(
            Missing("open kernel modules", MissingReason.UNDECIDED, "they are loaded already")
        )
    if if_missing("", disk_driver_flavour, node) == "open":
        raise EvidenceMissing(
            Missing("open kernel modules", MissingReason.UNDECIDED, "they are installed, and need a reboot")
        )
    if any_before_turing(node):
        raise EvidenceMissing(Missing("a GPU of Turing or later", MissingReason.ABSENT, "nvidia-smi -L"))
    yield driver_flavour.becomes("open")
    yield disk_driver_flavour.becomes("open")
    for path in _files(node):
        yield signature_check.becomes(signature_when_built(node, path), path)
    if if_missing(False, signatures_needed, node):
        ask = "modinfo -F signer nvidia"
        yield is_loaded.becomes(Missing("whether nvidia loads", MissingReason.STALE, ask), DRIVER)


def _files(node: Node) -> Iterable[str]:
    """The known files; those that an earlier step builds have no path yet."""
    return each_known(lambda ask: ask(node), (driver_path, peermem_path))


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Replace the driver's packages by those with the open modules.

    Source: NVIDIA driver installation guide, Ubuntu and Debian, RHEL family, SUSE."""
    del choices
    packages = {"debian": _of_apt, "rhel": _of_dnf, "suse": _of_zypper}.get(platform.name)
    yield packages(node) if packages is not None else _BY_HAND
    yield from refresh_if_there(node, platform, "it may contain the proprietary modules")


def _of_apt(node: Node) -> Action:
    """Ubuntu has a package for each branch, Debian one for each flavour."""
    if distribution(node).id == "debian":
        argv = ("apt-get", "install", "-y", "nvidia-open-kernel-dkms")
        back = ("apt-get", "install", "-y", "nvidia-kernel-dkms")
        return RunCommand(argv=argv, why="the open modules replace the proprietary ones", undo=(back,),
                           never_executed=True)  # fmt: skip
    branch, server = _branch(node)
    if not branch:
        return _BY_HAND
    flavour = f"{branch}{server}"
    if any(_PREBUILT.match(name) for name in _installed(node)):
        prebuilt, kernel = f"linux-modules-nvidia-{flavour}", release(node)
        new, old = f"{prebuilt}-open-{kernel}", f"{prebuilt}-{kernel}"
    else:
        new, old = f"nvidia-dkms-{flavour}-open", f"nvidia-dkms-{flavour}"
    return RunCommand(
        argv=("apt-get", "install", "-y", new),
        why="the open modules of the same branch replace the proprietary ones",
        undo=(("apt-get", "install", "-y", old),),
        never_executed=True,
    )


def _branch(node: Node) -> tuple[str, str]:
    """The driver's branch, and "-server" if its packages have that suffix."""
    for name in _installed(node):
        found = re.match(r"(?:linux-modules-nvidia|nvidia-dkms|nvidia-driver)-(\d+)(-server)?(?:-|$)", name)
        if found:
            return found[1], found[2] or ""
    return if_missing("", lambda: disk_driver_version(node).partition(".")[0]), ""


def _installed(node: Node) -> tuple[str, ...]:
    return if_missing((), lambda: tuple(installed(node)))


_STREAM_FILE = "etc/dnf/modules.d/nvidia-driver.module"
_OPEN_STREAMS = {"latest-dkms": "open-dkms"}
"""NVIDIA's repositories for RHEL 8 and 9 have the streams latest-dkms, open-dkms, 550-dkms, 550-open, ...:
NVIDIA driver installation guide, "Modularity profiles"."""


def _stream(node: Node) -> str:
    """The enabled stream with proprietary modules that DKMS builds; "" without one."""
    text = if_missing("", node.text, _STREAM_FILE)
    found = re.search(r"^stream=(latest-dkms|\d{3}-dkms)$", text, re.M)
    return found[1] if found and re.search(r"^state=enabled$", text, re.M) else ""


def _of_dnf(node: Node) -> Action:
    """Swap the packages of NVIDIA's repository, which conflict with each other. Where a stream of its module
    is enabled, dnf hides those of the others: dnf's modularity documentation, "switch-to"."""
    if stream := _stream(node):
        switch = ("dnf", "module", "switch-to", "-y")
        return RunCommand(
            argv=(*switch, f"nvidia-driver:{_OPEN_STREAMS.get(stream) or stream.replace('-dkms', '-open')}"),
            why="the stream of the open modules replaces that of the proprietary ones",
            undo=((*switch, f"nvidia-driver:{stream}"),),
            never_executed=True,
        )
    names = ("kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms")
    return RunCommand(
        argv=("dnf", "swap", "-y", *names),
        why="the open modules replace the proprietary ones",
        undo=(("dnf", "swap", "-y", *reversed(names)),),
        never_executed=True,
    )


def _of_zypper(node: Node) -> Action:
    """Install the distribution's signed packages; zypper removes the proprietary ones, which conflict."""
    del node
    install = ("zypper", "--non-interactive", "install", "--force-resolution")
    return RunCommand(
        argv=(*install, "nvidia-open-driver-G06-signed-kmp-default"),
        why="the open modules replace the proprietary ones",
        undo=((*install, "nvidia-driver-G06-kmp-default"),),
        never_executed=True,
    )


OPEN_KERNEL_MODULES = Remedy(
    name=RemedyName.OPEN_KERNEL_MODULES,
    title="install the open kernel modules of the same driver branch",
    effect=_effect,
    changes=Change.DRIVER,
    becomes="the open kernel modules drive the GPU; their signer is not known yet",
    risk="the open modules do not support GPUs before Turing; CUDA programs must stop during the change; if "
    "signatures are enforced, the new modules load only if signed by a trusted key, as those of "
    "distributions are",
    undo="reinstall the proprietary modules and reboot",
    needs_reboot=True,
    paths=("dmabuf",),
    drops_signatures=True,
    procedure=_procedure,
    commands=(
        "dnf swap -y PACKAGE PACKAGE",
        "dnf module switch-to -y STREAM",
        "zypper --non-interactive install --force-resolution PACKAGE",
    ),
)
