"""Records made from single lines of NCCL's log, without their position, and how a channel line is read.

Source of the formats: NCCL src/init.cc, src/misc/param.cc, src/graph/*.cc, src/transport/*.cc,
src/plugin/*.cc at the tags from v2.4.2-1 to v2.30.7-1, and of 2.31.2;
Mellanox/nccl-rdma-sharp-plugins src/p2p_plugin.c; aws/aws-ofi-nccl src/nccl_ofi_net.cpp.
"""

from __future__ import annotations

import functools
import re
from enum import StrEnum

from msgspec import Struct

from gdrkit.messages.message import Match, Meaning
from gdrkit.messages.torch_watchdog import Lagging, Operation, Progress
from gdrkit.programs.nccl.diagnostic_records import (
    DiagnosticEnd,
    DiagnosticHeader,
    DiagnosticLine,
    DiagnosticsSkipped,
)


class Frame(Struct, frozen=True):
    """The frame of a line: `host:pid:tid [device] NCCL INFO`, after any prefix of a launcher."""

    process: str  # host:pid; the launcher's tag and pid if the host is empty; "" if not known
    device: int | None  # the CUDA device of the thread that printed it, None without a frame
    message: str
    cut: bool = False  # another line interrupts this one, or the frame is cut


class Variable(Struct, frozen=True):
    """An environment variable: printed by NCCL, or in a command or a listing around the log."""

    name: str
    value: str
    resolved: bool = True  # NCCL printed it


class Version(Struct, frozen=True):
    """NCCL's version, such as 2.21.5. `library` is RCCL for AMD's library."""

    text: str
    library: str = "NCCL"


class MixedVersions(Struct, frozen=True):
    """Ranks with different versions: NCCL refuses to continue."""

    text: str


FAST_SOCKET = "FastSocket"
TCP = ("Socket", FAST_SOCKET)
"""Networks that copy through host memory and the kernel's TCP, whatever the GPU and the NIC can do: NCCL
src/transport/net_socket.cc; google/nccl-fastsocket net_fastsocket.cc."""


class Network(Struct, frozen=True):
    """The network that carries the job: IB, Socket, IBext_v10, AWS Libfabric, gIB, ..."""

    name: str


class Plugin(Struct, frozen=True):
    """The first line of a network plugin."""

    text: str


class Hca(Struct, frozen=True):
    """A device of NET/IB, with its index as in channel lines."""

    index: int
    name: str  # mlx5_0; mlx5_0+mlx5_1 if two are one network device
    link: str = ""  # IB, RoCE


class Hcas(Struct, frozen=True):
    """`NET/IB : Using`: the devices that are up and match NCCL_IB_HCA."""

    devices: tuple[Hca, ...]


class NoIbDevice(Struct, frozen=True):
    """`NET/IB : No device found`: no device, none that is up, or all filtered out."""


class SocketsUp(Struct, frozen=True):
    """`NET/Socket : Using`: NCCL's TCP network is ready. Up to 2.4 this comes first, even if another network
    is chosen then; in later releases only where no other network works."""

    loopback: bool = False  # its only interface is lo, which reaches no other host


class Bootstrap(Struct, frozen=True):
    """The interface by which other processes find this one."""

    interface: str
    address: str


class CallFailed(Struct, frozen=True):
    """What calls NCCL reports that a call failed: an error of NCCL then ends the job, or this part of it."""


class VerbsUnavailable(Struct, frozen=True):
    """libibverbs could not be opened."""

    text: str


NO_INDEX = -1


class NetDevice(Struct, frozen=True):
    """`GPU Direct RDMA Enabled|Disabled for HCA`: the capability of the NIC's side only."""

    network: str
    index: int  # NO_INDEX in releases up to 2.3, which print the name alone
    device: str
    enabled: bool
    how: str = ""  # nvidia-peermem or DMABUF, as HPC-X prints it; up to 2.3 why it is disabled
    no_module: bool = False  # `(no module)`, which only releases without dma-buf print


class FusedDevice(Struct, frozen=True):
    """`Made virtual device`: one per port, and one per group of ports that act as one."""

    index: int
    name: str
    mbit_per_s: int
    parts: int


class DmabufGpu(Struct, frozen=True):
    """`DMA-BUF is available on GPU device`: the capability of the GPU's side only."""

    text: str


class Rings(Struct, frozen=True):
    """`Connected all rings, use ring PXN p GDR g`: an AND over ring legs, true if there are none."""

    pxn: bool
    gdr: bool


class PairLine(Struct, frozen=True):
    """NCCL's decision for one GPU and one network device. Numbers depend on the version."""

    gpu: str
    hca: str
    allowed: bool
    distance: int | None = None
    level: int | None = None
    read: bool | None = None  # True: sending, the NIC reads GPU memory
    mode: str = ""
    excludes: bool = False  # a distance equal to the level is refused: releases up to 2.5


class Carrier(StrEnum):
    """What carries a channel."""

    DIRECT = "direct"  # the NIC reads or writes GPU memory
    BOUNCED = "bounced"  # a copy in host memory
    SOCKET = "socket"  # TCP
    NVLINK = "nvlink"  # GPU to GPU in an NVLink domain of several hosts (MNNVL)
    PEER = "p2p"  # GPU to GPU inside a node
    SHARED = "shm"  # host memory inside a node


INDIRECT = (Carrier.BOUNCED, Carrier.SOCKET)
OVER_NETWORK = (Carrier.DIRECT, *INDIRECT)


class Via(Struct, frozen=True):
    """What carries the bytes of a channel."""

    kind: str  # net, collnet, p2p, shm
    network: str = ""
    index: int = -1
    gdr: bool = False
    pci: bool = False  # (PCI): a mapping over PCIe, forced on a machine with NVLink-C2C
    proxy: int | None = None  # PXN: the rank whose GPU hands it to the NIC
    shared: bool = False
    how: str = ""  # inside a node: CUMEM, IPC/read, direct pointer, ...

    @property
    def carried(self) -> Carrier:
        """What the bytes go through. TCP has no direct path, even if a topology file makes NCCL print
        one."""
        if self.how.startswith("MNNVL"):
            return Carrier.NVLINK
        if self.kind in ("p2p", "shm"):
            return Carrier(self.kind)
        if self.network in TCP:
            return Carrier.SOCKET
        return Carrier.DIRECT if self.gdr else Carrier.BOUNCED


class Leg(Struct, frozen=True):
    """One channel line: the only kind that proves what carries the bytes."""

    channel: int
    source: int
    target: int | None
    direction: str  # send, receive; "" within a node, where one line is for both ends
    via: Via
    own_gpu: str = ""  # bus id in hex up to 2.18.1, NVML index since
    peer_gpu: str = ""  # of the other end, alike


class Failure(Struct, frozen=True):
    """A call, a work completion or a step of the start that failed. `number` is the errno, or the completion
    status."""

    call: str  # ibv_reg_mr, ibv_reg_dmabuf_mr, ibv_modify_qp, completion, or a name in FAILED_STEPS
    number: int | None
    text: str
    vendor_error: int | None = None
    device: str = ""
    states: str = ""  # INIT to RTR, of ibv_modify_qp
    routable: bool = False  # the line has both GIDs of a connection, and neither is zero or link-local


REGISTRATION = "registration"
"""What failed in a warning that memory cannot be registered, in the words of any plugin."""


OWN_END = "process"
"""What failed where a process stopped by an error of its own."""


class Warned(Struct, frozen=True):
    """A warning of another form, of which the messages of all programs know the causes, or what it means."""

    program: str  # or REGISTRATION, or OWN_END
    causes: tuple[str, ...]
    decides: bool  # if it has a single cause, it proves that
    meaning: Meaning | None = None  # of one that is not about the direct path


class AsyncEvent(Struct, frozen=True):
    """An event of a port or a queue pair: link down, addresses changed."""

    text: str


class Communicator(Struct, frozen=True):
    """One rank of one communicator, from its initialization."""

    rank: int
    ranks: int
    cuda_device: int
    bus_id: str = ""  # hex, such as 1b000
    identifier: str = ""  # commId, since 2.16.2


class Placement(Struct, frozen=True):
    """Where the ranks of a communicator are. With MNNVL a node is an NVLink domain, and local ranks can be
    on several hosts."""

    ranks: int
    nodes: int
    local_ranks: int
    mnnvl: bool = False


class Fabric(Struct, frozen=True):
    """A GPU's membership in an NVLink fabric, as NVML reports it. Without a cluster there is no fabric of
    several hosts: HGX machines report the state too."""

    cluster: str  # "" for zeros
    clique: str
    state: int  # 3: completed


class Clique(Struct, frozen=True):
    """`MNNVL 1 cliqueId`: the ranks that share an NVLink domain and use it."""

    identifier: str
    size: int


class DataDirect(Struct, frozen=True):
    """ConnectX-8 Data Direct: found, or not available because libmlx5 does not have the function."""

    found: bool
    text: str


class OfiNic(Struct, frozen=True):
    """One NIC of a group that aws-ofi-nccl presents to NCCL as one network device."""

    group: int
    address: str


class Connection(Struct, frozen=True):
    """What a RoCE connection has of the port at this end."""

    index: int
    packet_bytes: int
    link_local: bool


class GpuName(Struct, frozen=True):
    """The name of a process's GPU, which another program prints."""

    device: int
    product: str


class Remark(Struct, frozen=True):
    """Another relevant line, by the name of its template."""

    form: str
    text: str


NcclRecord = (
    Variable | Version | MixedVersions | Network | Plugin | Hcas | NoIbDevice | SocketsUp | VerbsUnavailable
    | NetDevice | FusedDevice | DmabufGpu | Rings | PairLine | Leg | Failure | Warned | AsyncEvent
    | Communicator | Placement | Fabric | Clique | DataDirect | OfiNic | Remark | GpuName | Connection
    | DiagnosticHeader | DiagnosticEnd | DiagnosticsSkipped | DiagnosticLine | Operation | Progress | Lagging
    | Bootstrap | CallFailed
)  # fmt: skip


CHANNEL = (
    # Only at the beginning of a message: lines that are cut or mixed from two processes are ignored.
    r"{:(?:\A|(?<=NCCL INFO ))(?:Channel|Ring|CollNet|Coll)} {channel:\d{1,4}}{:(?:/\d{1,4})?}"
    r" : {source:\d{1,7}}{:(?:\[(?P<source_gpu>-?[0-9a-f]{1,12})\])?}"
    r"{:(?: -> (?P<target>\d{1,7})(?:\[(?P<target_gpu>-?[0-9a-f]{1,12})\])?)?}"
    r"{:(?: \[(?P<direction>send|receive)\])? {1,8}}via {via:.+$}"
)


# RCCL ends channel lines with `comm 0x... nRanks 16`.
_END = r"(?: comm 0x[0-9a-f]+ nRanks \d+)?\s*$"


_NET = (
    r"(?P<kind>NET|COLLNET)/(?P<network>[A-Za-z][\w .+-]{0,40})/(?P<index>\d{1,4})"
    r"(?:\((?P<proxy>\d{1,7})\))?"
    # What follows GDRDMA does not revoke it, so fields of newer releases are skipped: 2.31 adds /flush=.
    rf"(?:(?P<gdr>/GDRDMA)(?P<pci>\(PCI\))?(?P<fields>(?:/\w[\w=.-]{{0,40}}){{0,8}})|(?P<shared>/Shared))?{_END}"
)


_INSIDE = (
    r"(?:P2P/(?P<p2p>(?:direct pointer|IPC|CUMEM|MNNVL|common device|indirect/\d+\[[0-9a-f]+\])"
    rf"(?:/read|/CE)*)|(?P<shm>direct shared memory|SHM/[A-Za-z]+(?:/[A-Za-z]+)?)){_END}"
)


@functools.cache
def _via_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(_NET), re.compile(_INSIDE)


def via(text: str) -> Via | None:
    """The transport after `via` in a channel line; None if it is cut or not recognised."""
    net, inside = _via_patterns()
    if found := net.match(text):
        fields = (found["fields"] or found["shared"] or "").split("/")
        return Via(
            found["kind"].lower(), found["network"], int(found["index"]),
            gdr=found["gdr"] is not None, pci=found["pci"] is not None,
            proxy=int(found["proxy"]) if found["proxy"] else None, shared="Shared" in fields,
        )  # fmt: skip
    if found := inside.match(text):
        return Via("p2p", how=found["p2p"]) if found["p2p"] else Via("shm", how=found["shm"])
    return None


def leg(found: Match) -> Leg | None:
    """The record of a channel line; None if its transport is cut or not recognised."""
    values = found.values
    transport = via(values["via"])
    if transport is None:
        return None
    direction, target = values.get("direction", ""), values.get("target")
    if not direction and target and transport.kind == "net":
        direction = "receive"  # up to 2.3, only the receiver prints it: src/transport/net.cu, netRecvSetup()
    gpus = [values.get("source_gpu", ""), values.get("target_gpu", "")]
    own, peer = reversed(gpus) if direction == "receive" else gpus
    return Leg(
        int(values["channel"]),
        int(values["source"]),
        int(target) if target else None,
        direction,
        transport,
        own,
        peer,
    )
