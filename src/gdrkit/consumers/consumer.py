"""What a program needs from a machine to send and receive GPU memory: one table per program.

A program can use a path if no rule takes away a capability that it needs for that path. Rules declare what
they take away. A rule about one program takes away its own `ConsumerPath`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_absent, if_missing


class Path(enum.StrEnum):
    """How bytes get from GPU memory to the network, best first."""

    DMABUF = "dmabuf"
    PEERMEM = "peermem"
    EFA_P2P = "efa-p2p"  # Amazon's module efa pins GPU memory itself
    HOST_MAPPED = "host-mapped"
    STAGED = "staged"
    SOCKET = "socket"

    # without a NIC
    NVLINK = "nvlink"  # to other hosts
    CPU_MAPPED = "cpu-mapped"  # the CPU reads and writes GPU memory itself: no way to a network
    NVIDIA_FS = "nvidia-fs"  # from storage, with NVIDIA's module
    P2PDMA = "p2pdma"  # from NVMe drives, with the kernel's own peer-to-peer

    # who starts a transfer, once a direct path is open
    GPU_INITIATED = "gpu-initiated"
    CPU_ASSISTED = "cpu-assisted"


DIRECT = (Path.DMABUF, Path.PEERMEM)
WITHOUT_NIC = (Path.NVLINK, Path.CPU_MAPPED, Path.NVIDIA_FS, Path.P2PDMA)
"""The paths that involve no RDMA device: where there is none, each GPU is judged alone."""
OF_ITS_OWN = (*DIRECT, Path.EFA_P2P, *WITHOUT_NIC)
"""The paths without host memory, of which a program's best one is its state."""
INITIATED = (Path.GPU_INITIATED, Path.CPU_ASSISTED)
"""Whether a GPU kernel can start a transfer itself, or the CPU rings the doorbell for it."""

Fallback = Literal["host-mapped", "staged", "socket"]
"""The paths that remain if no direct one works."""

Direction = Literal["both", "send", "receive"]
"""Send: the NIC reads GPU memory. Receive: it writes GPU memory."""


class Capability(enum.StrEnum):
    """What a machine offers, unless a rule takes it away."""

    GPU = "there is a GPU"
    WIRE = "an RDMA port in the program's reach is up"
    DMABUF = "GPU memory can be registered as a dma-buf"
    ADDRESS = "GPU memory can be registered by its address"
    PINNING = "the GPU's driver gives other modules access to its memory"
    EFA_P2P = "Amazon's module efa pins GPU memory itself"
    VMM = "memory from cuMemCreate can be registered"
    DOORBELL = "a GPU may ring a NIC's doorbell"
    NIC_QUEUES = "a NIC's queues can be in GPU memory"
    FABRIC = "GPUs of other hosts can be reached over NVLink"
    GDRDRV = "the CPU can map GPU memory"
    NVIDIA_FS = "nvidia-fs reads from storage into GPU memory"
    P2PDMA = "the kernel moves data between drives and GPU memory"


class ConsumerPath(Struct, frozen=True):
    """One program's own condition for one path: its version, its switches, its policy."""

    consumer: str
    path: Path


Need = Capability | ConsumerPath
REGISTRATION = (Capability.DMABUF, Capability.ADDRESS)
"""How a NIC reaches GPU memory."""
GPU_MEMORY = (*REGISTRATION, Capability.PINNING, Capability.P2PDMA)
"""All that a GPU, or its driver, can keep from others: not only from NICs."""

NEEDS: Mapping[Path, frozenset[Capability]] = {
    Path.DMABUF: frozenset((Capability.GPU, Capability.WIRE, Capability.DMABUF)),
    Path.PEERMEM: frozenset((Capability.GPU, Capability.WIRE, Capability.ADDRESS)),
    Path.EFA_P2P: frozenset((Capability.GPU, Capability.WIRE, Capability.PINNING, Capability.EFA_P2P)),
    Path.HOST_MAPPED: frozenset((Capability.GPU, Capability.WIRE)),
    Path.STAGED: frozenset((Capability.GPU, Capability.WIRE)),
    Path.SOCKET: frozenset((Capability.GPU,)),
    Path.NVLINK: frozenset((Capability.GPU, Capability.FABRIC)),
    Path.CPU_MAPPED: frozenset((Capability.GPU, Capability.PINNING, Capability.GDRDRV)),
    Path.NVIDIA_FS: frozenset((Capability.GPU, Capability.PINNING, Capability.NVIDIA_FS)),
    Path.P2PDMA: frozenset((Capability.GPU, Capability.P2PDMA)),
    Path.GPU_INITIATED: frozenset(
        (Capability.GPU, Capability.WIRE, Capability.DOORBELL, Capability.NIC_QUEUES)
    ),
    Path.CPU_ASSISTED: frozenset((Capability.GPU, Capability.WIRE)),
}
"""The capabilities that each path needs, for any program."""


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
        """The files of which this version requires one; () if it requires none."""
        for row in self.use(path).required_files:
            if numbers(version) >= row.since:
                return row.files
        return ()
