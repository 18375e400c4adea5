"""A kernel that was installed and has not run yet: its files, and what the boot loader takes next.

Formats: GRUB manual, "Simple configuration" and grubenv; the Boot Loader Specification of
uapi-group.org, which grubby and kernel-install write on Red Hat's systems; depmod(8) for modules.dep."""

from __future__ import annotations

import re

from machines.machine import Machine
from machines.tree import Tree

_IN_TREE = (
    "drivers/infiniband/core/ib_core",
    "drivers/infiniband/core/ib_uverbs",
    "drivers/net/ethernet/mellanox/mlx5/core/mlx5_core",
    "drivers/infiniband/hw/mlx5/mlx5_ib",
)
_OURS = ("nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem")
_ENTRY = "0123456789abcdef0123456789abcdef"


def newer(release: str) -> str:
    """A later build of the same kernel."""
    number = re.match(r"(?:[\d.]+-)?[\d.]*?(\d+)(?=[^\d.]|\.el|$)", release)
    assert number
    start, end = number.span(1)
    return f"{release[:start]}{int(number[1]) + 4}{release[end:]}"


def write(tree: Tree, machine: Machine) -> None:
    """Write the next kernel beside the running one, if there is one."""
    if not machine.next_kernel:
        return
    release, family = machine.next_kernel, machine.distribution.family
    at = f"lib/modules/{release}"
    suffix = f".ko.{machine.distribution.compress}" if machine.distribution.compress else ".ko"
    rows = [f"kernel/{name}{suffix}:" for name in _IN_TREE]
    if machine.next_has_driver:
        folder = "updates/dkms" if family == "deb" else "extra"
        rows += [f"{folder}/{name}{suffix}:" for name in _OURS]
    tree.file(f"{at}/modules.dep", "".join(f"{row}\n" for row in rows))
    for row in rows:
        tree.file(f"{at}/{row.rstrip(':')}", "")
    for installed in (machine.kernel.release, release):
        tree.file(f"boot/vmlinuz-{installed}", "")
    tree.file(f"boot/config-{release}", "CONFIG_MODULES=y\n")
    if family == "deb":
        tree.file(f"boot/initrd.img-{release}", "")
        _grub(tree, machine, release)
    else:
        tree.file(f"boot/initramfs-{release}.img", "")
        _entries(tree, machine, release)


def _grub(tree: Tree, machine: Machine, release: str) -> None:
    """grub-mkconfig lists the newest version first, and 0 is the default."""
    releases = (release, machine.kernel.release)
    entries = "".join(
        f"menuentry 'Linux {name}' --class gnu-linux {{\n"
        f"\tlinux\t/boot/vmlinuz-{name} root=/dev/nvme0n1p2 ro\n"
        f"\tinitrd\t/boot/initrd.img-{name}\n}}\n"
        for name in releases
    )
    tree.file("boot/grub/grub.cfg", f'set default="0"\n{entries}')
    tree.file("etc/default/grub", 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=""\n')


def _entries(tree: Tree, machine: Machine, release: str) -> None:
    for name in (release, machine.kernel.release):
        tree.file(
            f"boot/loader/entries/{_ENTRY}-{name}.conf",
            f"title Linux ({name})\nversion {name}\nlinux /vmlinuz-{name}\ninitrd /initramfs-{name}.img\n"
            "options root=/dev/nvme0n1p2 ro\n",
        )
    head = f"# GRUB Environment Block\nsaved_entry={_ENTRY}-{release}\n"
    tree.file("boot/grub2/grubenv", head + "#" * (1024 - len(head)))
    tree.file("etc/default/grub", 'GRUB_DEFAULT=saved\nGRUB_ENABLE_BLSCFG=true\nGRUB_CMDLINE_LINUX=""\n')
