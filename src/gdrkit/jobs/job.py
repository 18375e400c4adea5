"""What an analysis of a job's logs is made of; most of it is written as it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gdrkit.messages.nccl_records import Carrier
from gdrkit.rules import Code
from gdrkit.rules.rule import Layer

State = Literal["active", "blocked", "unknown"]
Status = Literal["failed", "warning", "note"]


class LegDirection(StrEnum):
    """Which way the bytes of a route go."""

    SEND = "send"
    RECEIVE = "receive"
    BOTH = "both"  # inside a node
    UNSAID = ""  # of CollNet, in versions that do not print it


class LogPosition:
    """A line of a log. No struct: it is written as text, file:number."""

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
    """Why a route is not direct. Several codes: the log leaves them open. None: nothing to mend is known."""

    text: str
    codes: tuple[Code, ...] = ()
    line: LogLineNumber | UnsetType = UNSET

    @property
    def sure(self) -> bool:
        return len(self.codes) == 1


class LegRoute(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way that one rank's channels go, proven by a channel line."""

    direction: LegDirection
    carried: Carrier
    channels: tuple[int, ...]
    line: LogLineNumber  # the first such line
    network: str = ""  # IB, IBext_v10, AWS Libfabric; "" inside a node
    index: int | None = None  # of the network device, as channel lines show it
    device: str = ""  # its name, where another line tells: mlx5_0, or mlx5_0+mlx5_1 of one fused from two
    how: str = ""  # inside a node
    forced_pcie: bool = False  # GDRDMA(PCI)
    pxn_proxy: int | None = None  # the rank whose GPU stands beside the NIC
    collnet: bool = False  # with a switch that adds up
    shared_buffers: bool = False
    reasons: tuple[LegReason, ...] = ()


class Rank(Struct, kw_only=True):
    """One GPU of a job."""

    rank: int | None  # in the largest communicator it is in; None where no line tells
    process: str  # host:pid
    cuda_device: int | None
    gpu: str  # bus id, 1b000, or NVML index, as the log has it
    routes: tuple[LegRoute, ...]

    @property
    def host(self) -> str:
        return self.process.rpartition(":")[0]

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else f"{self.process} [{self.cuda_device}]"


class JobPart(Struct, kw_only=True):
    """Ranks that are linked by communicators: a job, or one of several in the same logs."""

    number: int
    nccl_versions: tuple[str, ...]
    networks: tuple[str, ...]
    communicators: int
    expected: int | None  # ranks of the largest communicator
    ranks: list[Rank]


class JobFinding(Struct, frozen=True, kw_only=True):
    """A finding, with what its rule says of it."""

    code: Code
    layer: Layer
    status: Status  # failed: it keeps something from the direct path
    subject: str
    seen: str
    expected: str
    cost: str
    ranks: int  # how many it concerns
    lines: tuple[LogLineNumber, ...]
    references: tuple[str, ...]


class JobError(Struct, frozen=True, kw_only=True):
    """Calls or transfers that failed in the same way."""

    call: str
    number: int | None
    vendor_error: int | None
    meaning: str
    codes: tuple[Code, ...]  # what can cause it; () where it only follows from another error
    ranks: int
    count: int
    line: LogLineNumber  # the first
    words: str


class MisleadingLine(Struct, frozen=True, kw_only=True):
    """A line that is taken for more than it says."""

    words: str
    truth: str
    count: int  # of processes that print it, each of its devices apart
    line: LogLineNumber  # the first


class LegCounts(Struct, frozen=True, kw_only=True):
    """A leg is one channel of one rank in one direction over a network, by the worst that carries it."""

    ranks: int  # that print channels or belong to a communicator
    expected: int  # ranks of the communicators, printed or not
    unknown: int  # expected, and no line is of them
    channels: int  # different ones of the rank with most
    direct: int
    bounced: int
    socket: int


class LoggedKinds(Struct, frozen=True, kw_only=True):
    """Which kinds of lines the logs have. One that they do not have says nothing."""

    channels: bool
    net: bool
    env: bool
    init: bool


class JobAnalysis(Struct, kw_only=True):
    """All that logs prove."""

    jobs: list[JobPart]
    counts: LegCounts
    state: State
    findings: tuple[JobFinding, ...]
    errors: list[JobError]
    misleading: list[MisleadingLine]
    damaged: int  # lines that were cut, or cut into each other
    first_damaged: LogPosition | None
    logged: LoggedKinds
    refused: list[tuple[str, LegReason]]  # by process, where no channel shows what came of it
