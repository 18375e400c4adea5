"""What a log of NCCL's holds, as far as rules ask. PURE."""

from __future__ import annotations

from msgspec import Struct


class Said(Struct, frozen=True):
    """Something that one process printed."""

    text: str
    line: int
    process: str = ""  # host:pid, "" where the line has no frame


class LogSetting(Struct, frozen=True):
    """An environment variable that took effect, or was given to a process, in one process."""

    name: str
    value: str
    line: int
    process: str = ""
    resolved: bool = True  # NCCL printed it itself; False: only the text around it says so


class Leg(Struct, frozen=True):
    """One direction of one channel over the network. The only lines that prove anything."""

    direction: str  # send, receive
    network: str  # IB, Socket, IBext_v10, AWS Libfabric, ...
    gdr: bool
    line: int


class DeviceLine(Struct, frozen=True):
    """`GPU Direct RDMA Enabled|Disabled for HCA`: what the network side could do. Necessary, proves
    nothing.
    """

    network: str
    device: str
    enabled: bool
    line: int


class Refusal(Struct, frozen=True):
    """A pair refused for its distance. Numbers mean nothing without the version that printed them."""

    gpu: str
    hca: str
    distance: int
    level: int
    line: int


class Failure(Struct, frozen=True):
    """A call or a work completion that failed. `number` is the errno, or the completion status."""

    call: str  # ibv_reg_mr, ibv_reg_dmabuf_mr, ibv_modify_qp, completion
    number: int | None
    text: str
    line: int
    vendor_error: int | None = None


class NcclLog(Struct, frozen=True, kw_only=True):
    """One log. Each tuple is in the order of the lines."""

    path: str
    versions: tuple[Said, ...] = ()
    settings: tuple[LogSetting, ...] = ()
    networks: tuple[Said, ...] = ()
    plugins: tuple[Said, ...] = ()
    devices: tuple[DeviceLine, ...] = ()
    legs: tuple[Leg, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[Failure, ...] = ()
    dmabuf_gpus: tuple[Said, ...] = ()  # DMA-BUF is available on GPU device N: the GPU side alone
    rings: tuple[Said, ...] = ()  # Connected all rings ... GDR 0|1
    mixed_versions: tuple[Said, ...] = ()
    no_verbs: tuple[Said, ...] = ()  # Failed to open libibverbs.so
