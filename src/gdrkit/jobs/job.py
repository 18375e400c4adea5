"""The types of an analysis of a job's logs; most are part of the document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gdrkit.catalogue import Code
from gdrkit.programs.nccl.diagnostic_statements import Effect
from gdrkit.programs.nccl.log_records import Carrier
from gdrkit.programs.ucx.proto_tables import UcxPath
from gdrkit.rules.rule import Layer

State = Literal["active", "blocked", "impossible", "unknown"]
NOT_DIRECT: tuple[State, ...] = ("blocked", "impossible")
HostPath = Literal["staged", "socket", "direct", "nvlink", "unknown"]
Status = Literal["failed", "warning", "note"]


class LegDirection(StrEnum):
    """The direction of a leg's data."""

    SEND = "send"
    RECEIVE = "receive"
    BOTH = "both"  # inside a node
    NOT_PRINTED = ""  # CollNet, in versions that do not print it


class LogPosition:
    """A line of a log. Not a Struct, since it is written as text, file:number."""

    __slots__ = ("file", "line")

    def __init__(self, file: str, line: int) -> None:
        self.file, self.line = file, line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogPosition) and (self.file, self.line) == (other.file, other.line)

    def __lt__(self, other: LogPosition) -> bool:
        return (self.file, self.line) < (other.file, other.line)

    def __hash__(self) -> int:
        return hash((self.file, self.line))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    __repr__ = __str__


LogLineNumber = Annotated[
    LogPosition, Meta(extra_json_schema={"type": "string", "description": "file:number"})
]


class LegReason(Struct, frozen=True, omit_defaults=True):
    """Why a leg is not direct. Several codes: the log does not show which one. None: no known remedy."""

    text: str
    codes: tuple[Code, ...] = ()
    line: LogLineNumber | UnsetType = UNSET

    @property
    def sure(self) -> bool:
        return len(self.codes) == 1


class Leg(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One path of a rank's channels, proven by a channel line."""

    direction: LegDirection
    carried: Carrier
    channels: tuple[int, ...]
    line: LogLineNumber  # the first such line
    network: str = ""  # IB, IBext_v10, AWS Libfabric; "" inside a node
    index: int | None = None  # of the network device, as channel lines show it
    device: str = ""  # its name, if another line shows it: mlx5_0, or mlx5_0+mlx5_1 for a fused one
    how: str = ""  # inside a node
    forced_pcie: bool = False  # GDRDMA(PCI)
    pxn_proxy: int | None = None  # the rank whose GPU is next to the NIC
    collnet: bool = False  # reduction in the switch
    shared_buffers: bool = False
    reasons: tuple[LegReason, ...] = ()


class Rank(Struct, kw_only=True):
    """One GPU of a job."""

    rank: int | None  # in its largest communicator; None if no line shows it
    process: str  # host:pid
    cuda_device: int | None
    gpu: str  # bus id, 1b000, or NVML index, as the log has it
    legs: tuple[Leg, ...]
    communicator: str = ""  # in which it has this number: 0x9bd1f3a2; "" if no line names it
    network_path: Carrier | None = None  # what its network would use, if lines show that without a channel
    network_reasons: tuple[LegReason, ...] = ()  # why that is not direct

    @property
    def host(self) -> str:
        return self.process.rpartition(":")[0]

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else f"{self.process} [{self.cuda_device}]"


class MissingRanks(Struct, frozen=True, kw_only=True):
    """Ranks of a job that have no line in the logs."""

    count: int  # at least, where only channels name the ranks
    numbers: str  # 8-15; "" if the log does not number them
    hosts: tuple[str, ...]  # hosts that a line names for them
    other_hosts: int | None  # hosts of the job without any line; null: no line counts the hosts
    processes: tuple[str, ...] = ()  # host:pid of those that print lines of NCCL, and none of a communicator


class JobPart(Struct, kw_only=True):
    """Ranks linked by communicators: a job, or one of several jobs in the same logs."""

    number: int
    nccl_versions: tuple[str, ...]
    networks: tuple[str, ...]
    communicators: int
    expected: int | None  # ranks of the largest communicator
    at_least: bool = False  # that is not printed: its channels name as many
    ranks: list[Rank]
    missing: MissingRanks | None = None
    on_one_host: bool = False  # all ranks, as lines prove: the job needs no network

    @property
    def shares_numbers(self) -> bool:
        """Whether ranks have one number in several communicators, as where groups of a job overlap."""
        numbers = [rank.rank for rank in self.ranks if rank.rank is not None and rank.communicator]
        return len(set(numbers)) < len(numbers)


def ranks_by_host(ranks: Iterable[Rank]) -> dict[str, list[Rank]]:
    """Ranks by their host, "" where no line shows it; hosts and ranks in their order."""
    found: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        found[rank.host].append(rank)
    return found


class JobFinding(Struct, frozen=True, kw_only=True):
    """A finding, with layer, cost and references of its rule."""

    code: Code
    layer: Layer
    status: Status  # failed: it keeps a leg from being direct
    subject: str
    seen: str
    expected: str
    cost: str
    ranks: int  # how many are affected
    lines: tuple[LogLineNumber, ...]
    references: tuple[str, ...]
    todo: str  # the step that this job needs; "" if the page of the code has it


class LoneSetting(Struct, frozen=True, kw_only=True):
    """A variable that some hosts print, and another does not print, nor any other variable."""

    name: str
    value: str
    hosts: tuple[str, ...]
    closes: bool  # it closes a direct path, whatever the machine
    line: LogLineNumber  # the first


class JobError(Struct, frozen=True, kw_only=True):
    """Calls or transfers that failed in the same way."""

    call: str
    number: int | None
    vendor_error: int | None
    meaning: str
    codes: tuple[Code, ...]  # possible causes; () if it follows from another error, or is not about the path
    ranks: int
    count: int
    line: LogLineNumber  # the first
    words: str
    decides: bool = True  # if it has a single code, that is proven
    todo: str = ""  # what to do where it has no code


class MisleadingLine(Struct, frozen=True, kw_only=True):
    """A line that is often read as more than it shows."""

    words: str
    truth: str
    count: int  # of processes and devices that print it
    line: LogLineNumber  # the first


class LegCounts(Struct, frozen=True, kw_only=True):
    """Legs by what carries them. A leg is one channel of one rank in one direction over a network."""

    ranks: int  # with channels, a communicator or a network in the logs
    expected: int  # ranks of the communicators, in the logs or not; at least, where only channels name them
    unknown: int  # expected ranks without any line
    silent: int  # ranks with lines, but without one that shows a path
    channels: int  # of the rank with the most channels
    direct: int
    bounced: int
    socket: int
    nvlink: int  # over NVLink in a domain of several hosts (MNNVL), without a NIC


class RailCrossing(Struct, frozen=True, kw_only=True):
    """Connections between NICs of different rails, and the first of them."""

    count: int
    checked: int  # connections of which the logs show both ends
    channel: int
    sender: int
    receiver: int
    sending_device: str
    receiving_device: str
    line: LogLineNumber


class ShortNicList(Struct, frozen=True, kw_only=True):
    """Hosts on which NCCL lists fewer NICs than on most."""

    hosts: tuple[str, ...]
    missing: tuple[str, ...]  # that most hosts list, by name
    usual: int  # NICs that those list
    usual_hosts: int
    shared: tuple[str, ...]  # NICs of which several ranks of such a host use one
    selected: str  # NCCL_IB_HCA on these hosts, where only that can be the cause; else ""
    codes: tuple[Code, ...]  # possible causes
    line: LogLineNumber  # the first list


class SharedNics(Struct, frozen=True, kw_only=True):
    """Hosts on which NCCL lists fewer NICs than their ranks have GPUs."""

    hosts: tuple[str, ...]
    gpus: int  # of each of these hosts, in the logs
    nics: tuple[str, ...]
    setting: str  # NCCL_IB_HCA there; "" if no line has it
    keeps: bool  # the setting names only these NICs
    line: LogLineNumber  # of the setting, else of the first list


class HostsWithoutDmabuf(Struct, frozen=True, kw_only=True):
    """Hosts on which NCCL gets no dma-buf from the GPUs, where it gets it on others of the job."""

    hosts: tuple[str, ...]
    path: HostPath
    others: int  # hosts that offer it
    codes: tuple[Code, ...]  # possible causes
    line: LogLineNumber  # of the first communicator, which the missing line would precede


class LoggedKinds(Struct, frozen=True, kw_only=True):
    """Which kinds of lines the logs have. An absent kind does not prove anything."""

    nccl: bool  # any that NCCL prints
    channels: bool
    net: bool
    env: bool
    init: bool
    slurm: bool  # lines of srun or slurmstepd
    pods: tuple[str, ...] = ()  # hosts that commands of kubectl name as pods


class DiagnosticStatement(Struct, frozen=True, kw_only=True):
    """What one or several lines of a report show."""

    effect: Effect
    check: str  # as NCCL calls it: net bw, IOMMU mode, ...
    text: str
    codes: tuple[Code, ...]  # cause: shown; possible, open: not decided; excluded: not the cause
    ranks: tuple[int, ...]  # that lines name, at most eight of each set
    host: str  # of these ranks; "" if no line shows it
    todo: str
    line: LogLineNumber


class MeasuredBandwidth(Struct, frozen=True, kw_only=True):
    """A summary of ib_write_bw over all ranks, in one direction of each pair of NICs."""

    mode: str
    lowest_gbit_per_s: float
    median_gbit_per_s: float
    highest_gbit_per_s: float
    ranks: int
    line: LogLineNumber


class JobDiagnostics(Struct, frozen=True, kw_only=True):
    """What the reports of NCCL's diagnostics show."""

    active: bool  # NCCL_RUN_DIAGNOSTICS=1: transfers between GPUs and between NICs
    passive: bool  # NCCL_RUN_RAS_DIAGNOSTICS=1, or asked through the port of RAS: a comparison of ranks
    ranks: int | None
    processes: int | None  # that answered, if asked through the port
    hosts: tuple[str, ...]  # that lines name
    host_count: int  # at least
    gpus: str  # of each node: 8x NVIDIA H100 80GB HBM3
    tested: bool  # a line has a result; false: RAS is off, or no check ran
    bandwidths: tuple[MeasuredBandwidth, ...]
    tested_memory: tuple[str, ...]  # host, cuda, cuda+dmabuf: what lines of failed pairs name
    direct_path: str  # why the reports do not show whether GPU memory goes out directly
    statements: tuple[DiagnosticStatement, ...]
    summary: str


class UcxLeg(Struct, frozen=True, kw_only=True):
    """A row of a table of UCX_PROTO_INFO: a path that UCX chose for GPU memory to another node."""

    title: str  # operation and memory
    path: UcxPath
    words: str  # the same in words
    from_bytes: int
    description: str  # as UCX describes the protocol
    config: str  # transports, devices and their shares
    expected: bool  # what this side expects of the other
    count: int | None  # operations; null: chosen, which does not show that bytes flowed
    line: LogLineNumber


class UcxLegs(Struct, frozen=True, kw_only=True):
    """What tables of UCX_PROTO_INFO show of GPU memory that goes to other nodes."""

    direct: bool | None  # at both ends; null: they do not show it
    claim: str
    legs: tuple[UcxLeg, ...]  # at most eight


class ConnectionRemark(Struct, frozen=True, kw_only=True):
    """What is unusual about RoCE connections, and what to do."""

    text: str
    line: LogLineNumber


class JobAnalysis(Struct, kw_only=True):
    """All results of an analysis."""

    jobs: list[JobPart]
    counts: LegCounts
    state: State
    findings: tuple[JobFinding, ...]
    lone_settings: tuple[LoneSetting, ...]
    errors: list[JobError]
    ended: bool  # by the first of these errors, as other lines show
    misleading: list[MisleadingLine]
    damaged: int  # lines that were cut, or cut into each other
    first_damaged: LogPosition | None
    hidden: int  # lines of NCCL in whose place Ray printed another one
    logged: LoggedKinds
    refused: list[tuple[str, LegReason]]  # by process, if no channel shows the result
    crossing: RailCrossing | None
    short_nic_lists: tuple[ShortNicList, ...]
    shared_nics: tuple[SharedNics, ...]
    without_dmabuf: tuple[HostsWithoutDmabuf, ...]
    diagnostics: JobDiagnostics | None  # reports of NCCL's own diagnostics
    connections: tuple[ConnectionRemark, ...]
    ucx: UcxLegs | None  # tables of UCX_PROTO_INFO
    newer: tuple[str, ...]  # versions of NCCL that are newer than what gdrkit knows
