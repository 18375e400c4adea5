"""RHEL, Rocky, Alma, Oracle and Fedora.

Sources: dnf(8), dracut(8), grubby(8); NVIDIA driver installation guide, RHEL family.
"""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.repair.platforms.action import Action, RunCommand
from gdrkit.repair.platforms.boot_quoting import for_grub
from gdrkit.repair.platforms.platform import Platform

_BOOT_FILES = (
    "/boot/loader/entries/*.conf", "/boot/grub2/grubenv", "/etc/default/grub", "/etc/kernel/cmdline",
)  # fmt: skip
"""Files that grubby writes if each boot loader entry is a file: grubby(8), BLS."""


def _boot_argument(argument: str, name: str) -> tuple[Action, ...]:
    del name
    words = for_grub(argument)
    grubby = ("grubby", "--update-kernel=ALL")
    return (
        RunCommand(
            argv=(*grubby, f"--args={words}"),
            why=f"start every kernel with {argument}",
            undo=((*grubby, f"--remove-args={words}"),),
            touches=_BOOT_FILES,
            never_executed=True,
        ),
    )


def _open_modules(node: Node) -> tuple[Action, ...]:
    """Swap the packages of NVIDIA's repository, which conflict with each other."""
    del node
    names = ("kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms")
    return (
        RunCommand(
            argv=("dnf", "swap", "-y", *names),
            why="the open modules replace the proprietary ones",
            undo=(("dnf", "swap", "-y", *reversed(names)),),
            never_executed=True,
        ),
    )


RHEL = Platform(
    name="rhel",
    members=frozenset(("rhel", "centos", "fedora", "rocky", "almalinux", "ol")),
    install=("dnf", "install", "-y"),
    upgrade=("dnf", "upgrade", "-y"),
    remove=("dnf", "remove", "-y"),
    with_version="{name}-{version}",
    initramfs=("dracut", "--force", "--kver", "{kernel}"),
    boot_argument=_boot_argument,
    writes_for_grub_alone=True,
    open_modules=_open_modules,
    ofed=("doca-ofed",),
    verbs=("rdma-core", "libibverbs"),
    nccl=("libnccl",),
    headers="kernel-devel-{kernel}",
)
