"""Debian, Ubuntu and their derivatives, such as DGX OS.

Sources: apt-get(8), update-initramfs(8), update-grub(8), /usr/sbin/grub-mkconfig of Debian, which reads
/etc/default/grub.d/*.cfg; NVIDIA driver installation guide, Ubuntu and Debian.
"""

from __future__ import annotations

import re

from gdrkit.facts.boot_loader import OWN_DROP_IN
from gdrkit.facts.driver import disk_driver_version
from gdrkit.facts.kernel import release
from gdrkit.facts.machine import distribution
from gdrkit.facts.packages import installed
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand, WriteFile
from gdrkit.repair.platforms.boot_quoting import for_grub
from gdrkit.repair.platforms.file_contents import grub_argument
from gdrkit.repair.platforms.platform import Platform

_PREBUILT = re.compile(r"linux-modules-nvidia-(?P<branch>\d+)(?P<server>-server)?-(?!open)")


def _boot_argument(argument: str, name: str) -> tuple[Action, ...]:
    path, words = f"/{OWN_DROP_IN}{name}.cfg", for_grub(argument)
    return (
        WriteFile(path=path, content=grub_argument(words), why=f"start the kernel with {argument}"),
        RunCommand(
            argv=("update-grub",),
            why="regenerate grub's menu",
            again=True,
            touches=("/boot/grub/grub.cfg",),
            never_executed=True,
        ),
    )


def _open_modules(node: Node) -> tuple[Action, ...]:
    """Ubuntu has a package for each branch, Debian one for each flavour."""
    if distribution(node).id == "debian":
        argv = ("apt-get", "install", "-y", "nvidia-open-kernel-dkms")
        back = ("apt-get", "install", "-y", "nvidia-kernel-dkms")
        return (RunCommand(argv=argv, why="the open modules replace the proprietary ones", undo=(back,),
                           never_executed=True),)  # fmt: skip
    branch, server = _branch(node)
    if not branch:
        return (AskPerson(what="install the open kernel modules of the driver branch in use"),)
    flavour = f"{branch}{server}"
    if any(_PREBUILT.match(name) for name in _installed(node)):
        prebuilt, kernel = f"linux-modules-nvidia-{flavour}", release(node)
        new, old = f"{prebuilt}-open-{kernel}", f"{prebuilt}-{kernel}"
    else:
        new, old = f"nvidia-dkms-{flavour}-open", f"nvidia-dkms-{flavour}"
    return (
        RunCommand(
            argv=("apt-get", "install", "-y", new),
            why="the open modules of the same branch replace the proprietary ones",
            undo=(("apt-get", "install", "-y", old),),
            never_executed=True,
        ),
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


DEBIAN = Platform(
    name="debian",
    members=frozenset(("debian", "ubuntu")),
    install=("apt-get", "install", "-y"),
    upgrade=("apt-get", "install", "-y", "--only-upgrade"),
    remove=("apt-get", "remove", "-y"),
    with_version="{name}={version}",
    initramfs=("update-initramfs", "-u", "-k", "{kernel}"),
    boot_argument=_boot_argument,
    writes_for_grub_alone=True,
    open_modules=_open_modules,
    ofed=("doca-ofed",),
    verbs=("rdma-core", "libibverbs1", "ibverbs-providers"),
    nccl=("libnccl2",),
    headers="linux-headers-{kernel}",
)
