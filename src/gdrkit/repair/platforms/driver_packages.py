"""The driver that a machine has for other kernels than the running one, and how this one gets it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.facts.kernel import release
from gdrkit.facts.packages import DkmsModule, dkms, installed
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.platforms.software import load_driver

_PREBUILT = re.compile(r"(linux-modules-nvidia-\d+(?:-server)?(-open)?)-(\d+\.\d+\.\d+-[\w.-]+)")
"""Ubuntu's packages of modules for one kernel. Other names end in a flavour: they are metapackages."""


class DriverElsewhere(Struct, frozen=True):
    """A driver of another kernel."""

    flavour: str  # open, proprietary; "" if not known
    version: str  # "" if not known
    dkms: DkmsModule | None = None
    prebuilt: str = ""  # the package's name without the kernel


def driver_elsewhere(node: Node) -> DriverElsewhere | None:
    """The driver that DKMS has, or else that a package has for another kernel; None if neither is known."""
    for module in if_missing((), dkms, node):
        if module.name.startswith("nvidia"):
            return DriverElsewhere(_flavour(node, module.name), module.version, dkms=module)
    for name in if_missing((), lambda: tuple(installed(node))):
        if found := _PREBUILT.fullmatch(name):
            flavour = "open" if found[2] else "proprietary"
            return DriverElsewhere(flavour, _user_space_version(node), prebuilt=found[1])
    return None


def _user_space_version(node: Node) -> str:
    """The version of the driver's other packages, which those of the modules require."""
    for name, package in if_missing({}, installed, node).items():
        if name.startswith(("nvidia-utils-", "libnvidia-compute-", "nvidia-kernel-common-")):
            return re.split(r"[-+~]", package.version)[0].rpartition(":")[2]
    return ""


def _flavour(node: Node, module: str) -> str:
    """By the name of the DKMS package, of which Debian, Ubuntu and NVIDIA have one for each flavour."""
    names = [n for n in if_missing((), lambda: tuple(installed(node))) if "nvidia" in n and "dkms" in n]
    if "open" in module or (names and all("open" in name for name in names)):
        return "open"
    return "proprietary" if names and not any("open" in name for name in names) else ""


def for_kernel(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Install or build the modules for the running kernel, then load them.

    Sources: dkms(8), autoinstall; Ubuntu's packages linux-modules-nvidia-BRANCH-RELEASE, which Canonical
    signs; NVIDIA driver installation guide, pre-installation actions: headers of the running kernel."""
    found, kernel = driver_elsewhere(node), release(node)
    if found is None:
        yield AskPerson(what=f"install the driver's modules for {kernel}")
        return
    if found.dkms is None:
        name = f"{found.prebuilt}-{kernel}"
        yield platform.packages(
            name, why="the same modules for the running kernel", undo=((*platform.remove, name),)
        )
        flavour = re.sub(r"^[\d.]+-\d+-", "", kernel)
        yield AskPerson(
            what="for the kernels to come, install the metapackage too, such as "
            f"{found.prebuilt}-{flavour}: it follows that of the kernel"
        )
    else:
        headers = platform.headers.format(kernel=kernel)
        yield platform.packages(
            headers, why="without headers, DKMS skips the build", undo=((*platform.remove, headers),)
        )
        yield RunCommand(
            argv=("dkms", "autoinstall", "-k", kernel),
            why=f"build {found.dkms.name} {found.dkms.version} for the running kernel",
            undo=(("dkms", "uninstall", "-m", found.dkms.name, "-v", found.dkms.version, "-k", kernel),),
            never_executed=True,
        )
    yield from load_driver(node, platform, choices)
