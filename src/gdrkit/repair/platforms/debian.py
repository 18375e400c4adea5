"""Debian, Ubuntu and their derivatives, such as DGX OS.

Sources: apt-get(8), update-initramfs(8), update-grub(8), /usr/sbin/grub-mkconfig of Debian, which reads
/etc/default/grub.d/*.cfg; dpkg -L pciutils.
"""

from __future__ import annotations

from gdrkit.facts.boot_loader import OWN_DROP_IN
from gdrkit.repair.platforms.action import Action, RunCommand, WriteFile
from gdrkit.repair.platforms.boot_quoting import for_grub
from gdrkit.repair.platforms.file_contents import grub_argument
from gdrkit.repair.platforms.platform import Platform


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
    ofed=("doca-ofed",),
    verbs=("rdma-core", "libibverbs1", "ibverbs-providers"),
    nccl=("libnccl2",),
    headers="linux-headers-{kernel}",
    setpci="/usr/bin/setpci",
    commands=(
        "apt-get install -y PACKAGE+",
        "apt-get install -y --only-upgrade PACKAGE+",
        "apt-get remove -y PACKAGE+",
        "update-initramfs -u -k KERNEL",
        "update-grub",
    ),
)
