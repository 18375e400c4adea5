"""What differs between families of distributions: commands and package names."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gdrkit.facts.machine import distribution
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import Action, RunCommand

IMMUTABLE = frozenset(("talos", "rhcos", "fedora-coreos", "flatcar", "bottlerocket", "cos", "sl-micro"))
"""Distributions whose system must not be changed by hand, whatever their ID_LIKE: os-release(5), ID."""


class Platform(Struct, frozen=True, kw_only=True):
    """A family of distributions."""

    name: str
    members: frozenset[str]  # values of ID and ID_LIKE in os-release(5)
    install: tuple[str, ...]
    upgrade: tuple[str, ...]
    remove: tuple[str, ...]
    with_version: str  # how a package version is requested, of {name} and {version}
    initramfs: tuple[str, ...]  # of {kernel}
    boot_argument: Callable[[str, str], tuple[Action, ...]]  # of one kernel argument and a file name
    writes_for_grub_alone: bool  # whether boot_argument has no effect under another boot loader
    open_modules: Callable[[Node], tuple[Action, ...]]
    ofed: tuple[str, ...]  # packages
    verbs: tuple[str, ...]
    nccl: tuple[str, ...]
    headers: str  # package, of {kernel}

    def packages(self, *names: str, why: str, undo: tuple[tuple[str, ...], ...]) -> RunCommand:
        """Install packages. Not tested: NVIDIA's repositories are not in the lab."""
        return RunCommand(argv=(*self.install, *names), why=why, undo=undo, never_executed=True)

    def refresh_initramfs(self, kernel: str, why: str) -> RunCommand:
        """Rebuild the initramfs. Undo rebuilds it again from the restored files."""
        argv = tuple(word.format(kernel=kernel) for word in self.initramfs)
        return RunCommand(argv=argv, why=why, again=True, never_executed=True)


def family(node: Node, platforms: tuple[Platform, ...]) -> Platform | None:
    """The family of a node's distribution; None if it is unknown, or in IMMUTABLE."""
    found = if_missing(None, distribution, node)
    if found is None or IMMUTABLE & found.family:
        return None
    return next((row for row in platforms if row.members & found.family), None)
