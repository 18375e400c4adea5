"""What single lines of NCCL's establish, each as a value without its place.

Source of the forms: NCCL src/init.cc, src/misc/param.cc, src/graph/*.cc, src/transport/*.cc, src/plugin/*.cc
at the tags from v2.4.2-1 to v2.30.7-1; Mellanox/nccl-rdma-sharp-plugins src/p2p_plugin.c; aws/aws-ofi-nccl
src/nccl_ofi_net.cpp.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Frame(Struct, frozen=True):
    """Who printed a line: `host:pid:tid [device] NCCL INFO`, behind whatever a launcher writes."""

    process: str  # host:pid; launcher's tag and pid where the host is empty; "" where nothing names it
    device: int | None  # the CUDA device of the thread that printed, None where no frame is there
    message: str
    cut: bool = False  # a second line stands in the middle of this one, or the frame itself is cut


class Variable(Struct, frozen=True):
    """An environment variable: printed by NCCL itself, or given in a command or a listing around the log."""

    name: str
    value: str
    resolved: bool = True  # NCCL printed it


class Version(Struct, frozen=True):
    """NCCL's version, as 2.21.5. `library` is RCCL where AMD's says so."""

    text: str
    library: str = "NCCL"


class MixedVersions(Struct, frozen=True):
    """Ranks with other versions: NCCL refuses to go on."""

    text: str


class Network(Struct, frozen=True):
    """The network that carries the job: IB, Socket, IBext_v10, AWS Libfabric, gIB, ..."""

    name: str


class Plugin(Struct, frozen=True):
    """A line by which a network plugin announces itself."""

    text: str


class Hca(Struct, frozen=True):
    """A device of NET/IB by its index: the one that channel lines show."""

    index: int
    name: str  # mlx5_0; mlx5_0+mlx5_1 where two are one network device
    link: str = ""  # IB, RoCE


class Hcas(Struct, frozen=True):
    """`NET/IB : Using`: what NCCL_IB_HCA left over and is up."""

    devices: tuple[Hca, ...]


class NoIbDevice(Struct, frozen=True):
    """`NET/IB : No device found`: none there, none up, or all filtered out."""


class VerbsUnavailable(Struct, frozen=True):
    """libibverbs could not be opened."""

    text: str


class NetDevice(Struct, frozen=True):
    """`GPU Direct RDMA Enabled|Disabled for HCA`: what the NIC's side could do, no more."""

    network: str
    index: int
    device: str
    enabled: bool
    how: str = ""  # nvidia-peermem or DMABUF, in HPC-X's words


class FusedDevice(Struct, frozen=True):
    """`Made virtual device`: one per port, and one per group of ports that act as one."""

    index: int
    name: str
    mbit_per_s: int
    parts: int


class DmabufGpu(Struct, frozen=True):
    """`DMA-BUF is available on GPU device`: of the GPU's side alone."""

    text: str


class Rings(Struct, frozen=True):
    """`Connected all rings, use ring PXN p GDR g`: an AND over ring legs, true where there are none."""

    pxn: bool
    gdr: bool


class PairLine(Struct, frozen=True):
    """NCCL's word on one GPU and one network device. Numbers mean nothing without the version."""

    gpu: str
    hca: str
    allowed: bool
    distance: int | None = None
    level: int | None = None
    read: bool | None = None  # True: sending, the NIC reads GPU memory
    mode: str = ""


class Carrier(StrEnum):
    """What carries a channel."""

    DIRECT = "direct"  # the NIC reads or writes GPU memory
    BOUNCED = "bounced"  # a copy in host memory
    SOCKET = "socket"  # TCP
    PEER = "p2p"  # GPU to GPU inside a node
    SHARED = "shm"  # host memory inside a node


OVER_NETWORK = (Carrier.DIRECT, Carrier.BOUNCED, Carrier.SOCKET)


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
        """What the bytes go through. TCP has no direct path, whatever a topology file makes NCCL print."""
        if self.kind in ("p2p", "shm"):
            return Carrier(self.kind)
        if self.network == "Socket":
            return Carrier.SOCKET
        return Carrier.DIRECT if self.gdr else Carrier.BOUNCED


class Leg(Struct, frozen=True):
    """One channel line: the only kind that proves what carries the bytes."""

    channel: int
    source: int
    target: int | None
    direction: str  # send, receive; "" inside a node, where one line stands for both ends
    via: Via
    own_gpu: str = ""  # bus id in hex up to 2.18.1, NVML index since


class Failure(Struct, frozen=True):
    """A call or a work completion that failed. `number` is the errno, or the completion status."""

    call: str  # ibv_reg_mr, ibv_reg_dmabuf_mr, ibv_modify_qp, completion
    number: int | None
    text: str
    vendor_error: int | None = None
    device: str = ""
    states: str = ""  # INIT to RTR, of ibv_modify_qp


class AsyncEvent(Struct, frozen=True):
    """An event of a port or a queue pair: link down, addresses changed."""

    text: str


class Communicator(Struct, frozen=True):
    """One rank of one communicator, as its initialization tells."""

    rank: int
    ranks: int
    cuda_device: int
    bus_id: str = ""  # hex, as 1b000
    identifier: str = ""  # commId, since 2.16.2


class DataDirect(Struct, frozen=True):
    """ConnectX-8 Data Direct: found, or not looked for because libmlx5 lacks the function."""

    found: bool
    text: str


class OfiNic(Struct, frozen=True):
    """One NIC of a group that aws-ofi-nccl shows NCCL as one network device."""

    group: int
    address: str


class Remark(Struct, frozen=True):
    """Another line worth knowing, by the name of its form."""

    form: str
    text: str


NcclRecord = (
    Variable | Version | MixedVersions | Network | Plugin | Hcas | NoIbDevice | VerbsUnavailable | NetDevice
    | FusedDevice | DmabufGpu | Rings | PairLine | Leg | Failure | AsyncEvent | Communicator | DataDirect
    | OfiNic | Remark
)  # fmt: skip
