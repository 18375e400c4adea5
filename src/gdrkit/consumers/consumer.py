"""What a program needs of a machine to put GPU memory on the wire: one table per program.

A path serves a program where nothing took away a capability that the program needs for it. Rules name what
they take; they name a program only where they are about that program: then they take its own `ConsumerPath`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from gdrkit.facts.libraries import LibraryCopy
from gdrkit.formats.versions import numbers
from gdrkit.node import Node


class Path(enum.StrEnum):
    """How bytes get from GPU memory to the wire, best first."""

    DMABUF = "dmabuf"
    PEERMEM = "peermem"
    HOST_MAPPED = "host-mapped"
    STAGED = "staged"
    SOCKET = "socket"


DIRECT = (Path.DMABUF, Path.PEERMEM)

Fallback = Literal["host-mapped", "staged", "socket"]
"""The paths that are left where no direct one serves."""

Direction = Literal["both", "send", "receive"]
"""Whose way is meant: send is the NIC that reads GPU memory, receive the one that writes it."""


class Capability(enum.StrEnum):
    """What a machine offers; a rule takes it away."""

    GPU = "there is a GPU"
    WIRE = "an RDMA port in the program's reach is up"
    DMABUF = "GPU memory can be registered as a dma-buf"
    ADDRESS = "GPU memory can be registered by its address"


class ConsumerPath(Struct, frozen=True):
    """One program's own side of one path: its version, its switches, its policy."""

    consumer: str
    path: Path


Need = Capability | ConsumerPath
REGISTRATION = (Capability.DMABUF, Capability.ADDRESS)

NEEDS: Mapping[Path, frozenset[Capability]] = {
    Path.DMABUF: frozenset((Capability.GPU, Capability.WIRE, Capability.DMABUF)),
    Path.PEERMEM: frozenset((Capability.GPU, Capability.WIRE, Capability.ADDRESS)),
    Path.HOST_MAPPED: frozenset((Capability.GPU, Capability.WIRE)),
    Path.STAGED: frozenset((Capability.GPU, Capability.WIRE)),
    Path.SOCKET: frozenset((Capability.GPU,)),
}
"""What a path is made of, for whoever takes it."""


class RequiredFiles(Struct, frozen=True):
    """What a program looks at before it takes a path: from a version on, one of these files is enough."""

    since: tuple[int, ...]
    files: tuple[str, ...]
    source: str


class Switch(Struct, frozen=True, kw_only=True):
    """A variable, the values that close paths, and which."""

    name: str
    closes: tuple[Path, ...]
    off: Callable[[str], bool]
    network: bool = False  # off, it keeps the program from RDMA devices altogether
    direction: Direction = "both"
    source: str


class PathSupport(Struct, frozen=True, kw_only=True):
    """How a program takes one path."""

    path: Path
    since: tuple[int, ...] = ()  # the first version that has it
    required_files: tuple[RequiredFiles, ...] = ()  # newest first; () where it simply tries
    also: frozenset[Capability] = frozenset()  # what it needs beyond what the path is made of


class Consumer(Struct, frozen=True, kw_only=True, eq=False):
    """A program that wants GPU memory on the wire."""

    name: str
    title: str
    uses: tuple[PathSupport, ...]
    copies: Callable[[Node], tuple[LibraryCopy, ...]] = (
        lambda node: ()
    )  # those that are seen, in logs and on disk
    assumed: str = ""  # the newest that was read: what an image that nobody sees would bring
    version: Callable[[Node], str] | None = None  # on disk; the report says what it assumes of one not seen
    switches: tuple[Switch, ...] = ()
    common: bool = False  # any job may bring it: what stops it alone is worth a warning, whoever asks

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(use.path for use in self.uses)

    @property
    def direct(self) -> tuple[Path, ...]:
        return tuple(path for path in DIRECT if path in self.paths)

    @property
    def modern(self) -> str:
        """From which version on it misses nothing that a machine offers, in words."""
        looks = (look.since for use in self.uses for look in use.required_files)
        first = max((*looks, *(use.since for use in self.uses)))
        return f"{self.title} {'.'.join(map(str, first))} or newer"

    def use(self, path: str) -> PathSupport:
        return next(use for use in self.uses if use.path == path)

    def own(self, *paths: str) -> tuple[ConsumerPath, ...]:
        """The program's own side of paths, for a rule that is about the program."""
        return tuple(ConsumerPath(self.name, Path(path)) for path in paths)

    def needs(self, path: Path) -> frozenset[Need]:
        return NEEDS[path] | self.use(path).also | {ConsumerPath(self.name, path)}

    def files_wanted(self, path: str, version: str) -> tuple[str, ...]:
        """The files of which this version wants one; () where it wants none."""
        for row in self.use(path).required_files:
            if numbers(version) >= row.since:
                return row.files
        return ()
