"""The record of processes that run now, as `gdrkit.agent.probe.running_probe` writes it. Hostile input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, field

from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError

SCHEMA = "gdrkit.running/1"

Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""The agent writes no larger one, and JSON is read with 64 bits."""
Seconds = Annotated[float, Meta(ge=0, le=3600)]


class SourceState(Struct, frozen=True):
    """How a source of the record ended: found, denied, absent, timed-out, truncated or failed."""

    status: str
    why: str = ""
    seconds: Seconds = 0.0


class TcpRates(Struct, frozen=True):
    """Bytes per second of a process's TCP connections; `here` to peers on the same node."""

    sockets: Number = 0
    sent: Number = 0
    received: Number = 0
    sent_here: Number = 0
    received_here: Number = 0


class MappedLibrary(Struct, frozen=True):
    """A library as mapped; an empty version is not told, perhaps because of `why`."""

    name: str
    path: str = ""
    version: str = ""
    deleted: bool = False
    why: str = ""


class OpenBuffer(Struct, frozen=True):
    """A dma-buf that a process has open, by its fdinfo."""

    ino: Number | None = None
    size: Number = 0
    exp_name: str = ""


class SharedMapping(Struct, frozen=True):
    """A file in memory that a process maps and that others may write to; `file` is device and inode."""

    file: str
    path: str = ""
    bytes: Number = 0


class UnreadableProcess(Struct, frozen=True):
    """A process whose descriptors cannot be listed; `why` is the name of the error, such as EACCES."""

    pid: Number
    name: str = ""
    why: str = ""


class RunningProcess(Struct, frozen=True):
    """What /proc shows of a process; `denied` names what this user may not read."""

    pid: Number
    started: Number
    uid: Number
    name: str
    cgroup: str = ""
    namespaces: dict[str, str] = {}
    devices: dict[str, Number] = {}
    mapped_devices: list[str] = []
    shared: list[SharedMapping] = []
    buffers: list[OpenBuffer] = []
    libraries: list[MappedLibrary] = []
    environment: dict[str, str] = {}
    denied: list[str] = []
    tcp: TcpRates = TcpRates()


class RdmaObject(Struct, frozen=True):
    """A row of a table: a context, PD, CQ, MR or QP. Without `pid` its maker has ended, or lives in another
    pid namespace."""

    pid: Number | None = None
    ctxn: Number | None = None
    pdn: Number | None = None
    mrn: Number | None = None
    bytes: Number = 0
    lqpn: Number | None = None
    rqpn: Number | None = None
    type: Number | None = None
    state: Number | None = None


class ObjectTable(Struct, frozen=True):
    """A table of objects, incomplete if there is an error."""

    rows: list[RdmaObject]
    error: str = ""


class DeviceName(Struct, frozen=True):
    index: Number
    device_name: str = ""


class RdmaRow(Struct, frozen=True):
    """A row of the RDMA source: the system, a device with its tables, a thread, or a QP that was sampled."""

    system: dict[str, Number] | None = None
    device: DeviceName | None = None
    counts: dict[str, Number] = {}
    tables: dict[str, ObjectTable] = {}
    thread: Number | None = None
    process: Number | None = None
    qp: Number | None = None
    index: Number | None = None
    sent_packets: Number = 0
    received_packets: Number = 0
    seconds: Seconds = 0.0
    why: str = ""  # why the process of a thread is not told


class PortCounters(Struct, frozen=True):
    """Bytes that a port moved in some seconds."""

    device: str
    port: str
    sent: Number
    received: Number
    seconds: Seconds


class BufferTable(Struct, frozen=True):
    """The kernel's table of dma-bufs, as text."""

    text: str
    truncated: bool = False


class NvmlRow(Struct, frozen=True):
    """A process that computes on a GPU, or why that GPU lists none; or the bytes that the GPU moved in some
    seconds, without those that it does not count."""

    gpu: str
    pid: Number | None = None
    bytes: Number | None = None
    error: Number | None = None
    seconds: Seconds | None = None
    nvlink_sent: Number | None = None
    nvlink_received: Number | None = None
    nvlink_ever: Number | None = None  # since the driver was loaded
    pcie_sent: Number | None = None
    pcie_received: Number | None = None


class RasAnswer(Struct, frozen=True):
    """What NCCL's RAS answered: in JSON, or as text for a reader."""

    format: str
    text: str
    truncated: bool = False


class RunningNodeRow(Struct, frozen=True):
    """A row about the node: one of its keys is there."""

    peer_module: str | None = None  # nvidia_peermem or nv_peer_mem, which is loaded
    peermem_references: Number | None = None
    peer_client: str | None = None
    counts: dict[str, Number] = {}
    gpu: str | None = None
    minor: Number | None = None
    model: str = ""
    device_id: str = ""
    uverbs: str | None = None
    device: str = ""
    rdma_device: str | None = None
    address: str = ""


class RunningRecord(Struct, frozen=True):
    """The whole record."""

    schema: str
    uid: Number
    sources: dict[str, SourceState]
    processes: list[RunningProcess]
    namespaces: dict[str, str] = {}
    tcp_namespaces: list[str] = []
    denied_processes: Number = 0
    unreadable: list[UnreadableProcess] = []  # the first of them; none in older records
    hidden_processes: bool = False  # whether /proc leaves out those of other users
    rdma: list[RdmaRow] = []
    ports: list[PortCounters] = []
    buffers: list[BufferTable] = []
    nvml: list[NvmlRow] = []
    node: list[RunningNodeRow] = field(default_factory=list)
    ras: list[RasAnswer] = []

    def state(self, source: str) -> SourceState:
        """How a source ended; one that the record does not have was not asked."""
        return self.sources.get(source, SourceState("absent", "not asked"))

    def lists_all(self) -> bool:
        """Whether the descriptors of every process of its pid namespace were listed."""
        return (
            self.state("processes").status == "found"
            and not self.denied_processes
            and not self.hidden_processes
        )

    def uverbs(self) -> Mapping[str, str]:
        """The RDMA device of each /dev/infiniband/uverbsN."""
        return {row.uverbs: row.device for row in self.node if row.uverbs is not None}

    def addresses(self) -> Mapping[str, str]:
        """The PCI address of each RDMA device; empty for one that is not on a PCI bus."""
        return {row.rdma_device: row.address for row in self.node if row.rdma_device is not None}


def decode(data: bytes) -> RunningRecord:
    """A record. Raises FormatError."""
    record = json_text.decode(data, RunningRecord)
    if record.schema != SCHEMA:
        raise FormatError(f"unsupported schema of a record of processes: {record.schema[:40]!r}")
    return record
