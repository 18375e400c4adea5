"""What an analysis of a job's logs is made of. PURE."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.messages.nccl_records import Carrier


class Place(Struct, frozen=True, order=True):
    """A line of a log."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Reason(Struct, frozen=True):
    """Why a route is not direct. Several codes: the log leaves them open. None: nothing to mend is known."""

    text: str
    codes: tuple[str, ...] = ()
    place: Place | None = None

    @property
    def sure(self) -> bool:
        return len(self.codes) == 1


class Route(Struct, frozen=True, kw_only=True):
    """One way that one rank's channels go, proven by a channel line."""

    direction: str  # send, receive; both inside a node
    carried: Carrier
    channels: tuple[int, ...]
    place: Place  # of the first such line
    network: str = ""  # IB, IBext_v10, AWS Libfabric; "" inside a node
    index: int = -1  # of the network device, as channel lines show it
    device: str = ""  # its name, where another line tells: mlx5_0, or mlx5_0+mlx5_1 of one fused from two
    collective: bool = False  # CollNet, with a switch that adds up
    forced_pcie: bool = False  # GDRDMA(PCI)
    proxy: int | None = None  # PXN: the rank whose GPU stands beside the NIC
    shared: bool = False
    how: str = ""  # inside a node
    reasons: tuple[Reason, ...] = ()


class Rank(Struct, kw_only=True):
    """One GPU of a job."""

    job: int
    rank: int | None  # in the largest communicator it is in; None where no line tells
    ranks: int | None  # the size of that communicator
    process: str  # host:pid
    device: int | None  # CUDA device
    gpu: str  # bus id, 1b000, or NVML index, as the log has it
    routes: tuple[Route, ...] = ()

    @property
    def host(self) -> str:
        return self.process.rpartition(":")[0]

    @property
    def name(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else f"{self.process} [{self.device}]"


class JobPart(Struct, kw_only=True):
    """Ranks that are linked by communicators: a job, or one of several in the same logs."""

    number: int
    versions: tuple[str, ...]
    communicators: int
    expected: int | None  # ranks of the largest communicator
    ranks: list[Rank]
    networks: tuple[str, ...]


class Found(Struct, frozen=True, kw_only=True):
    """A finding, with one of the codes that doctor has."""

    code: str
    status: str  # failed: it keeps something from the direct path; warning, note
    subject: str
    seen: str
    expected: str
    ranks: int  # how many it concerns
    places: tuple[Place, ...]


class Error(Struct, frozen=True, kw_only=True):
    """Calls or transfers that failed in the same way."""

    call: str
    number: int | None
    vendor_error: int | None
    meaning: str
    codes: tuple[str, ...]  # what can cause it; () where it only follows from another error
    ranks: int
    count: int
    place: Place  # the first
    words: str


class Misleading(Struct, frozen=True, kw_only=True):
    """A line that is taken for more than it says."""

    words: str
    truth: str
    count: int  # of processes that print it, each of its devices apart
    place: Place


class Counts(Struct, frozen=True, kw_only=True):
    """Legs are a rank's channel in one direction over a network."""

    ranks: int
    expected: int  # ranks of the communicators; those that no line is of are unknown
    channels: int  # different ones of the rank with most
    direct: int
    bounced: int
    socket: int
    inside: int  # routes inside nodes
    unknown: int  # ranks that print no channel over a network while others do, or that no line is of


class Analysis(Struct, kw_only=True):
    """All that logs prove."""

    jobs: list[JobPart]
    counts: Counts
    state: str  # active, blocked, unknown
    findings: list[Found]
    errors: list[Error]
    misleading: list[Misleading]
    damaged: int  # lines that were cut, or cut into each other
    first_damaged: Place | None
    logged: dict[str, bool]  # which kinds of lines are there at all: env, net, channels
    refused: list[tuple[str, Reason]]  # by process, where no channel shows what came of it
