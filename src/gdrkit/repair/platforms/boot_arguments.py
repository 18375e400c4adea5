"""The actions that give the kernel an argument, for the boot loader of the node."""

from __future__ import annotations

from gdrkit.facts.boot_loader import is_systemd_boot
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.boot_quoting import for_kernel
from gdrkit.repair.platforms.platform import Platform


def boot_argument(node: Node, platform: Platform, argument: str, name: str) -> tuple[Action, ...]:
    """The actions that start the kernel with an argument, for the boot loader of the node.

    Where systemd-boot started it, and the family's tool writes for GRUB alone, a person edits one line.
    Source: systemd kernel-install(8), /etc/kernel/cmdline, and 90-loaderentry.install."""
    if platform.writes_for_grub_alone and if_missing(False, is_systemd_boot, node):
        words = for_kernel(argument)
        return (
            AskPerson(
                what=f"systemd-boot starts this machine: append {words} to the line in /etc/kernel/cmdline, "
                "which has all arguments (create it from /proc/cmdline, without initrd= and BOOT_IMAGE=)",
                commands=('sudo kernel-install add "$(uname -r)" "/boot/vmlinuz-$(uname -r)"',),
            ),
        )
    return platform.boot_argument(argument, name)
