"""What a program needs from a machine to send and receive GPU memory: one table per program.

A program can use a path if no rule takes away a capability that it needs for that path. Rules declare what
they take away. A rule about one program takes away its own `ConsumerPath`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.capabilities import NEEDS, OF_ITS_OWN, Capability, ConsumerPath, Direction, Need, Path


class RequiredFiles(Struct, frozen=True):
    """Files that a program requires before it uses a path: from a version on, one of them must exist."""

    since: tuple[int, ...]
    files: tuple[str, ...]
    source: str


class Switch(Struct, frozen=True, kw_only=True):
    """An environment variable that can disable paths."""

    name: str
    closes: tuple[Path, ...]
    off: Callable[[str], bool]
    network: bool = False  # if off, the program uses no RDMA devices at all
    direction: Direction = "both"
    source: str


class PathSupport(Struct, frozen=True, kw_only=True):
    """How a program uses one path."""

    path: Path
    since: tuple[int, ...] = ()  # the first version that has it
    required_files: tuple[RequiredFiles, ...] = ()  # newest first; () if it requires none
    also: tuple[Capability, ...] = ()  # what it needs beyond NEEDS


class Consumer(Struct, frozen=True, kw_only=True, eq=False):
    """A program that sends and receives GPU memory."""

    name: str
    title: str
    uses: tuple[PathSupport, ...]
    copies: Callable[[Node], tuple[LibraryCopy, ...]] = lambda node: ()  # found in logs and on disk
    assumed: str = ""  # the version assumed of an unknown container image
    version: Callable[[Node], str] | None = (
        None  # on disk; for an unknown one, the report states its assumption
    )
    switches: tuple[Switch, ...] = ()
    common: bool = False  # jobs commonly use it: a finding about it alone is at least a warning
    engine: Callable[[Node], Consumer | None] | None = None  # starts all its transfers, by its version
    initiates: str = ""  # the name of the way in which a GPU kernel starts transfers itself
    mapped: str = ""  # a pattern of paths: a process that maps such a library runs the program
    without: str = ""  # what it does where no direct path is open, as the end of a sentence
    elsewhere: str = ""  # what it does if another NIC than the GPU's own serves

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(use.path for use in self.uses)

    @property
    def direct(self) -> tuple[Path, ...]:
        return tuple(path for path in OF_ITS_OWN if path in self.paths)

    def installed(self, node: Node) -> bool | None:
        """Whether a copy was found on the node or in a log; None where that is not known."""
        found = if_missing(None, lambda: if_absent((), self.copies, node))
        return None if found is None else bool(found)

    @property
    def complete_since(self) -> str:
        """The first version that supports everything a machine offers."""
        looks = (look.since for use in self.uses for look in use.required_files)
        return ".".join(map(str, max((*looks, *(use.since for use in self.uses)))))

    def is_complete(self, version: str) -> bool:
        """Whether a version supports everything a machine offers."""
        return numbers(version) >= numbers(self.complete_since)

    @property
    def modern(self) -> str:
        """The first version that supports everything a machine offers, and any newer one, as text."""
        return f"{self.title} {self.complete_since} or newer"

    def use(self, path: str) -> PathSupport:
        return next(use for use in self.uses if use.path == path)

    def own(self, *paths: str) -> tuple[ConsumerPath, ...]:
        """The program's own condition for these paths, for a rule about the program."""
        return tuple(ConsumerPath(self.name, Path(path)) for path in paths)

    def needs(self, path: Path) -> frozenset[Need]:
        return NEEDS[path] | {*self.use(path).also, ConsumerPath(self.name, path)}

    def files_wanted(self, path: str, version: str) -> tuple[str, ...]:
        """The files, one of which this version requires; () if it requires none."""
        for row in self.use(path).required_files:
            if numbers(version) >= row.since:
                return row.files
        return ()
