"""RHEL, Rocky, Alma, Oracle and Fedora.

Sources: dnf(8), dracut(8), grubby(8); Fedora, pciutils.spec, %files.
"""

from __future__ import annotations

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
    ofed=("doca-ofed",),
    verbs=("rdma-core", "libibverbs"),
    nccl=("libnccl",),
    headers="kernel-devel-{kernel}",
    setpci="/usr/sbin/setpci",
    commands=(
        "dnf install -y PACKAGE+",
        "dnf upgrade -y PACKAGE+",
        "dnf remove -y PACKAGE+",
        "dracut --force --kver KERNEL",
        "grubby --update-kernel=ALL --args=ARGUMENT",
        "grubby --update-kernel=ALL --remove-args=ARGUMENT",
    ),
)
