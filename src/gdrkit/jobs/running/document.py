"""The output of `gdr ps --json`: schema gdrkit.ps/1. The text is made from it, too."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.catalogue import Code
from gdrkit.evidence import Confidence
from gdrkit.jobs.running.workload import Workload
from gdrkit.programs.nccl.diagnostic_statements import Effect

ProcessPath = Literal["direct", "staged", "socket", "host-mapped", "nvlink", "none", "unknown"]
"""staged: copied through host memory. host-mapped: host memory that is the memory of an integrated GPU.
nvlink: to other GPUs, and to no network. none: the process does not use both a GPU and a network."""


class RunningVerdict(Struct, frozen=True, kw_only=True):
    """Which path a process's GPU memory takes."""

    path: ProcessPath
    registered_by: Literal["dmabuf", "peermem", ""]  # "" where it is not known, or nothing is
    confidence: Confidence | None  # null: unknown
    moving: bool | None  # whether its network devices, or its connections, move data now; null: not known
    because: str
    evidence: tuple[str, ...]
    limits: tuple[str, ...]  # what this does not show
    ask: tuple[str, ...]  # what would show more


class GpuInUse(Struct, frozen=True, kw_only=True):
    """A GPU that a process computes on, or only has open."""

    address: str  # of the PCI bus; /dev/nvidiaN where that is not known
    index: int | None  # among the node's GPUs by PCI address, as nvidia-smi counts; null: not known
    computes: bool | None  # null: NVML does not list processes here
    memory_bytes: int | None


class DeviceInUse(Struct, frozen=True, kw_only=True):
    """What a process holds on an RDMA device."""

    device: str
    regions: int
    registered_bytes: int
    dmabuf_regions: int | None  # at least so many are GPU memory, as a dma-buf; null: not known
    dmabuf_bytes: int | None
    connected_pairs: int
    other_pairs: int
    pairs_to_themselves: int
    packets_per_s: int | None  # of its queue pairs; null: not known
    port_bytes_per_s: int | None  # of the device, for all processes; null: not known


class LibraryInUse(Struct, frozen=True, kw_only=True):
    """A library as it is mapped; an empty version is not known."""

    name: str
    version: str
    path: str
    deleted: bool


class SocketUse(Struct, frozen=True, kw_only=True):
    """What a process's TCP connections move, in bytes per second."""

    sockets: int
    to_others: int
    to_this_node: int


class PsProcess(Struct, frozen=True, kw_only=True):
    """A process that uses a GPU or an RDMA device."""

    pid: int
    started: int  # clock ticks after boot: with the pid, it names the process
    name: str
    user_id: int
    job: Workload
    gpus: tuple[GpuInUse, ...]
    devices: tuple[DeviceInUse, ...]
    open_devices: tuple[str, ...]  # device files, as /dev/infiniband/uverbs0
    libraries: tuple[LibraryInUse, ...]
    settings: dict[str, str]
    tcp: SocketUse | None  # null: not known
    closed: tuple[str, ...]  # what this user may not read of it
    verdict: RunningVerdict


class PsSource(Struct, frozen=True, kw_only=True):
    """How a source of evidence ended."""

    name: str
    status: str
    why: str
    seconds: float


class PsPort(Struct, frozen=True, kw_only=True):
    """What a port of an RDMA device moves, for all processes."""

    device: str
    port: str
    sent_bytes_per_s: int
    received_bytes_per_s: int


class PsGpu(Struct, frozen=True, kw_only=True):
    """What a GPU moves, for all processes, in bytes per second; null: not known."""

    address: str
    nvlink_sent: int | None
    nvlink_received: int | None
    pcie_sent: int | None
    pcie_received: int | None


class PsCommunicator(Struct, frozen=True, kw_only=True):
    """A communicator of NCCL, as its RAS tells: only with --ras."""

    version: str
    ranks: int
    missing: int  # that do not answer
    hosts: int
    processes: tuple[int, ...]  # of this node


class PsStatement(Struct, frozen=True, kw_only=True):
    """What a report of NCCL's diagnostics shows."""

    effect: Effect
    check: str
    text: str
    codes: tuple[Code, ...]
    ranks: tuple[int, ...]  # that lines name, at most eight of each set
    host: str
    todo: str


class PsDiagnostics(Struct, frozen=True, kw_only=True):
    """NCCL's comparison of the nodes of a job: only with --ras, from NCCL 2.31.2 on."""

    processes: int | None  # that answered
    ranks: int | None
    hosts: tuple[str, ...]  # that lines name
    gpus: str  # of each node
    direct_path: str  # why the report does not show whether GPU memory goes out directly
    statements: tuple[PsStatement, ...]


class PsJob(Struct, frozen=True, kw_only=True):
    """The processes of one job on this node."""

    job: Workload
    processes: int
    paths: dict[str, int]  # how many processes take which path


class PsDocument(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.ps/1"):
    """The output of `gdr ps`."""

    as_root: bool
    processes: tuple[PsProcess, ...]
    jobs: tuple[PsJob, ...]
    ports: tuple[PsPort, ...]  # those that have counters
    gpus: tuple[PsGpu, ...]  # those on which a process computes
    communicators: tuple[PsCommunicator, ...]
    diagnostics: PsDiagnostics | None  # null: not asked, or no answer
    sources: tuple[PsSource, ...]
    unowned_regions: int  # of no process that is visible from here
    unowned_bytes: int
    unreadable_processes: int  # whose descriptors this user may not read
    complete: bool  # whether no process that uses a GPU can be missing
    notes: tuple[str, ...]


def exit_code(document: PsDocument) -> int:
    """0: no process takes a slower path; 2: some do; 3: for some it is not known, or some may be missing,
    and none is seen to."""
    paths = {process.verdict.path for process in document.processes}
    is_known = document.complete and "unknown" not in paths
    return 2 if paths & {"staged", "socket"} else 0 if is_known else 3
