"""Changes to the files of modules: their index, the initramfs, modprobe.d and modules-load.d."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.initramfs import Held, boot_copy
from gdrkit.facts.kernel import release
from gdrkit.facts.modprobe_config import Directive, configuration
from gdrkit.facts.module_index import modules_dir
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.modules_load import AutoLoad, autoload
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand
from gdrkit.repair.platforms.edits import without_lines
from gdrkit.repair.platforms.platform import Platform

_INDEX_FILES = "modules.[a-z]*"
"""Files that depmod writes, or that the kernel's package installs beside them: depmod(8)."""
DEPMOD = ("depmod -a KERNEL", "depmod -b {root} KERNEL")
"""The shapes of the commands of `depmod`."""


def depmod(node: Node, why: str) -> RunCommand:
    """Rebuild the index of modules. Undo restores its files."""
    kernel = release(node)
    return RunCommand(
        argv=("depmod", "-a", kernel),
        why=why,
        again=True,
        touches=(f"/{modules_dir(node)}/{_INDEX_FILES}",),
        in_root=("depmod", "-b", "{root}", kernel),
    )


def initramfs_tool(platform: Platform) -> str:
    """The path of the program that rebuilds the initramfs."""
    return f"usr/sbin/{platform.initramfs[0]}" if platform.name == "debian" else "usr/bin/dracut"


def refresh_if_there(
    node: Node, platform: Platform, why: str, modules: Iterable[str] = ()
) -> Iterator[Action]:
    """Rebuild the initramfs, unless the evidence shows that the tool for it is absent, or that it holds no
    former build of these modules."""
    copies = [if_missing(None, boot_copy, node, name) for name in modules]
    if copies and all(copy is not None and copy.held is not Held.FORMER for copy in copies):
        return
    try:
        if node.exists(initramfs_tool(platform)):
            yield platform.refresh_initramfs(release(node), why)
    except EvidenceMissing:
        yield platform.refresh_initramfs(release(node), why)


def comment_out(node: Node, entries: Iterable[Directive | AutoLoad], etc: str, why: str) -> Iterator[Action]:
    """Comment out these lines. A file outside /etc is overridden by one of the same name in `etc`."""
    by_file: dict[str, list[int]] = {}
    for entry in entries:
        by_file.setdefault(entry.file, []).append(entry.line)
    for file, lines in by_file.items():
        if file == "proc/cmdline":
            yield AskPerson(what="remove the arguments for nvidia-peermem from the kernel's command line")
        else:
            yield without_lines(node, file, lines, etc, why)


def off_the_blacklist(node: Node) -> Iterator[Action]:
    """Let systemd load nvidia-peermem at boot.

    systemd-modules-load obeys blacklists, modprobe by name does not: systemd, modules-load.c.
    """
    blacklisted = [entry for entry in configuration(node).blacklist if entry.name == PEERMEM]
    yield from comment_out(
        node, blacklisted, "/etc/modprobe.d", "comment out the blacklist, which systemd obeys at boot"
    )


def comment_out_autoload(node: Node, module: str, why: str) -> Iterator[Action]:
    """Comment out the lines of modules-load.d that load a module at boot."""
    listed = [entry for entry in autoload(node) if entry.name == module]
    yield from comment_out(node, listed, "/etc/modules-load.d", why)
