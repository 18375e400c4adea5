"""What differs between families of distributions: the commands, as words."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gdrkit.facts.machine import distribution
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import Action, RunCommand

IMMUTABLE = frozenset(("talos", "rhcos", "fedora-coreos", "flatcar", "bottlerocket", "cos", "sl-micro"))
"""Distributions whose system is not changed by hand, whatever they resemble: os-release(5), ID."""


class Platform(Struct, frozen=True, kw_only=True):
    """A family of distributions."""

    name: str
    members: frozenset[str]  # words of os-release(5), ID and ID_LIKE
    install: tuple[str, ...]
    upgrade: tuple[str, ...]
    remove: tuple[str, ...]
    with_version: str  # how a package of one version is named, of {name} and {version}
    initramfs: tuple[str, ...]  # of {kernel}
    boot_argument: Callable[[str, str], tuple[Action, ...]]  # words of the kernel's command line, a name
    open_modules: Callable[[Node], tuple[Action, ...]]
    ofed: tuple[str, ...]  # packages
    verbs: tuple[str, ...]
    nccl: tuple[str, ...]
    headers: str  # package, of {kernel}

    def packages(self, *names: str, why: str, undo: tuple[tuple[str, ...], ...]) -> RunCommand:
        """Install packages. Nobody has run it for gdrkit: NVIDIA's repositories are not in its lab."""
        return RunCommand(argv=(*self.install, *names), why=why, undo=undo, never_executed=True)

    def refresh_initramfs(self, kernel: str, why: str) -> RunCommand:
        """Make the initramfs anew; to take that back, it is made once more from the files that are back."""
        argv = tuple(word.format(kernel=kernel) for word in self.initramfs)
        return RunCommand(argv=argv, why=why, again=True, never_executed=True)


def family(node: Node, platforms: tuple[Platform, ...]) -> Platform | None:
    """The family that a node's distribution belongs to; None if it is not known, or not changed by hand."""
    found = if_missing(None, distribution, node)
    if found is None or IMMUTABLE & found.family:
        return None
    return next((row for row in platforms if row.members & found.family), None)
