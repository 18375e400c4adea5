"""SUSE Linux Enterprise and openSUSE.

Sources: zypper(8), dracut(8), pbl(8), which keeps the kernel arguments in /etc/default/grub; openSUSE,
pciutils.spec, %files.
"""

from __future__ import annotations

from gdrkit.repair.platforms.action import Action, RunCommand
from gdrkit.repair.platforms.boot_quoting import for_kernel
from gdrkit.repair.platforms.platform import Platform

_ZYPPER = ("zypper", "--non-interactive")
_BOOT_FILES = ("/etc/default/grub", "/boot/grub2/grub.cfg", "/boot/loader/entries/*.conf")


def _boot_argument(argument: str, name: str) -> tuple[Action, ...]:
    """pbl(8) takes key="value", escapes the quotes in /etc/default/grub, and writes for systemd-boot too.

    Source: openSUSE/perl-bootloader include/library, lib_set_cmdline_grub() and lib_set_cmdline_bls()."""
    del name
    words = for_kernel(argument)
    return (
        RunCommand(
            argv=("pbl", "--add-option", words),
            why=f"start the kernel with {argument}",
            undo=(("pbl", "--del-option", words),),
            touches=_BOOT_FILES,
            never_executed=True,
        ),
        RunCommand(argv=("pbl", "--config"), why="regenerate the boot loader's menu", again=True,
                   touches=_BOOT_FILES, never_executed=True),
    )  # fmt: skip


SUSE = Platform(
    name="suse",
    members=frozenset(("suse", "sles", "sled", "opensuse", "opensuse-leap", "opensuse-tumbleweed")),
    install=(*_ZYPPER, "install"),
    upgrade=(*_ZYPPER, "update"),
    remove=(*_ZYPPER, "remove"),
    with_version="{name}={version}",
    initramfs=("dracut", "--force", "--kver", "{kernel}"),
    boot_argument=_boot_argument,
    writes_for_grub_alone=False,
    ofed=("doca-ofed",),
    verbs=("rdma-core", "libibverbs1"),
    nccl=("libnccl2",),
    headers="kernel-default-devel",
    setpci="/usr/sbin/setpci",
    commands=(
        "zypper --non-interactive install PACKAGE+",
        "zypper --non-interactive update PACKAGE+",
        "zypper --non-interactive remove PACKAGE+",
        "dracut --force --kver KERNEL",
        "pbl --add-option ARGUMENT",
        "pbl --del-option ARGUMENT",
        "pbl --config",
    ),
)
