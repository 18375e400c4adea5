"""The driver that a machine has for other kernels than the running one."""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.facts.machine import distribution
from gdrkit.facts.packages import DkmsModule, dkms, installed, is_driver
from gdrkit.formats.regex import regex
from gdrkit.node import Node, if_missing

_PREBUILT = regex(r"(linux-modules-nvidia-\d+(?:-server)?(-open)?)-(\d+\.\d+\.\d+-[\w.-]+)")
"""Ubuntu's packages of modules for one kernel. Other names end in a flavour: they are metapackages."""


_FOLDER = regex(r"nvidia-(\d+)(srv)?(-open)?")
"""The folder of such a package's modules, in the kernel's folder kernel/: nvidia-570srv-open. Source: what
Ubuntu's source package linux-restricted-modules builds."""


class DriverElsewhere(Struct, frozen=True):
    """A driver of another kernel."""

    flavour: str  # open, proprietary; "" if not known
    version: str  # "" if not known
    dkms: DkmsModule | None = None
    prebuilt: str = ""  # the package's name without the kernel


def driver_elsewhere(node: Node) -> DriverElsewhere | None:
    """The driver that DKMS has, or else that a package has for another kernel; None if neither is known."""
    for module in if_missing((), dkms, node):
        if is_driver(module):
            return DriverElsewhere(_flavour(node, module.name), module.version, dkms=module)
    for name in if_missing((), lambda: tuple(installed(node))):
        if found := _PREBUILT.fullmatch(name):
            flavour = "open" if found[2] else "proprietary"
            return DriverElsewhere(flavour, _user_space_version(node), prebuilt=found[1])
    return _by_folder(node)


def _by_folder(node: Node) -> DriverElsewhere | None:
    """By the folders of Ubuntu's packages, where the list of packages shows none."""
    if "ubuntu" not in if_missing(frozenset[str](), lambda: distribution(node).family):
        return None
    for kernel in if_missing((), node.list, "lib/modules"):
        folders = if_missing((), node.list, f"lib/modules/{kernel}/kernel")
        for branch, server, is_open in (
            found.groups("") for found in map(_FOLDER.fullmatch, folders) if found
        ):
            name = f"linux-modules-nvidia-{branch}{server and '-server'}{is_open}"
            flavour = "open" if is_open else "proprietary"
            return DriverElsewhere(flavour, _user_space_version(node), prebuilt=name)
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
