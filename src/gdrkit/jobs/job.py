"""What an analysis of a job's logs is made of; most of it is written as it is. PURE."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gdrkit.messages.nccl_records import Carrier
from gdrkit.rules import Code
from gdrkit.rules.rule import Layer

State = Literal["active", "blocked", "unknown"]
Status = Literal["failed", "warning", "note"]


class Direction(StrEnum):
    """Which way the bytes of a route go."""

    SEND = "send"
    RECEIVE = "receive"
    BOTH = "both"  # inside a node
    UNSAID = ""  # of CollNet, in versions that do not print it


class Place:
    """A line of a log. No struct: it is written as text, file:number."""

    __slots__ = ("file", "line")

    def __init__(self, file: str, line: int) -> None:
        self.file, self.line = file, line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (self.file, self.line) == (other.file, other.line)

    def __lt__(self, other: Place) -> bool:
        return (self.file, self.line) < (other.file, other.line)

    def __hash__(self) -> int:
        return hash((self.file, self.line))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    __repr__ = __str__


Line = Annotated[Place, Meta(extra_json_schema={"type": "string", "description": "file:number"})]


class Reason(Struct, frozen=True, omit_defaults=True):
    """Why a route is not direct. Several codes: the log leaves them open. None: nothing to mend is known."""

    text: str
    codes: tuple[Code, ...] = ()
    line: Line | UnsetType = UNSET

    @property
    def sure(self) -> bool:
        return len(self.codes) == 1


class Route(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way that one rank's channels go, proven by a channel line."""

    direction: Direction
    carried: Carrier
    channels: tuple[int, ...]
    line: Line  # the first such line
    network: str = ""  # IB, IBext_v10, AWS Libfabric; "" inside a node
    index: int | None = None  # of the network device, as channel lines show it
    device: str = ""  # its name, where another line tells: mlx5_0, or mlx5_0+mlx5_1 of one fused from two
    how: str = ""  # inside a node
    forced_pcie: bool = False  # GDRDMA(PCI)
    pxn_proxy: int | None = None  # the rank whose GPU stands beside the NIC
    collnet: bool = False  # with a switch that adds up
    shared_buffers: bool = False
    reasons: tuple[Reason, ...] = ()


class Rank(Struct, kw_only=True):
    """One GPU of a job."""

    rank: int | None  # in the largest communicator it is in; None where no line tells
    process: str  # host:pid
    cuda_device: int | None
    gpu: str  # bus id, 1b000, or NVML index, as the log has it
    routes: tuple[Route, ...]

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
    lines: tuple[Line, ...]
    references: tuple[str, ...]


class Error(Struct, frozen=True, kw_only=True):
    """Calls or transfers that failed in the same way."""

    call: str
    number: int | None
    vendor_error: int | None
    meaning: str
    codes: tuple[Code, ...]  # what can cause it; () where it only follows from another error
    ranks: int
    count: int
    line: Line  # the first
    words: str


class Misleading(Struct, frozen=True, kw_only=True):
    """A line that is taken for more than it says."""

    words: str
    truth: str
    count: int  # of processes that print it, each of its devices apart
    line: Line  # the first


class Counts(Struct, frozen=True, kw_only=True):
    """A leg is one channel of one rank in one direction over a network, by the worst that carries it."""

    ranks: int  # that print channels or belong to a communicator
    expected: int  # ranks of the communicators, printed or not
    unknown: int  # expected, and no line is of them
    channels: int  # different ones of the rank with most
    direct: int
    bounced: int
    socket: int


class Logged(Struct, frozen=True, kw_only=True):
    """Which kinds of lines the logs have. One that they do not have says nothing."""

    channels: bool
    net: bool
    env: bool
    init: bool


class Analysis(Struct, kw_only=True):
    """All that logs prove."""

    jobs: list[JobPart]
    counts: Counts
    state: State
    findings: tuple[JobFinding, ...]
    errors: list[Error]
    misleading: list[Misleading]
    damaged: int  # lines that were cut, or cut into each other
    first_damaged: Place | None
    logged: Logged
    refused: list[tuple[str, Reason]]  # by process, where no channel shows what came of it
