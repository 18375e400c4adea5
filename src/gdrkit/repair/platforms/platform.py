"""What differs between families of distributions: commands and package names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from gdrkit.node import Node
from gdrkit.repair.platforms.action import Action, RunCommand
from gdrkit.repair.platforms.choices import ProcedureChoices


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
    ofed: tuple[str, ...]  # packages
    verbs: tuple[str, ...]
    nccl: tuple[str, ...]
    headers: str  # package, of {kernel}
    setpci: str  # where pciutils installs it: units and udev rules need the whole path
    commands: tuple[str, ...]  # their shapes, in the words of command_shapes.py: a step may run no others

    def packages(self, *names: str, why: str, undo: tuple[tuple[str, ...], ...]) -> RunCommand:
        """Install packages. Not tested: NVIDIA's repositories are not in the lab."""
        return RunCommand(argv=(*self.install, *names), why=why, undo=undo, never_executed=True)

    def refresh_initramfs(self, kernel: str, why: str) -> RunCommand:
        """Rebuild the initramfs. Undo rebuilds it again from the restored files."""
        argv = tuple(word.format(kernel=kernel) for word in self.initramfs)
        return RunCommand(argv=argv, why=why, again=True, never_executed=True)


def without_packages(name: str, boot_argument: Callable[[str, str], tuple[Action, ...]]) -> Platform:
    """A platform without a package manager, an initramfs or a command of its own."""
    return Platform(
        name=name, members=frozenset(), install=(), upgrade=(), remove=(), with_version="", initramfs=(),
        boot_argument=boot_argument, writes_for_grub_alone=False, ofed=(), verbs=(), nccl=(), headers="",
        setpci="", commands=(),
    )  # fmt: skip


Planner = Callable[[Node, Platform, ProcedureChoices], Iterator[Action]]
"""Returns the actions that carry out a remedy. Raises EvidenceMissing if the evidence does not suffice."""
