"""What decides about one process: its holdings, its GPUs, and what the node shows, put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from gdrkit.facts import gpu_ids
from gdrkit.facts.usage import EXPORTERS, DmaBuffer, parse_buffers
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.jobs.running.attribution import AttachmentShare, shares
from gdrkit.jobs.running.document import GpuInUse, PsGpu
from gdrkit.jobs.running.holders import SHORTEST_S, Holdings, Owners, owners
from gdrkit.jobs.running.record import RunningProcess, RunningRecord

HOST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO: Linux include/uapi/linux/nsfs.h."""
OTHER_FABRIC = regex(r"/dev/(?:cxi|hfi1_)\d+")
"""Slingshot and Omni-Path move data without verbs."""
_UVERBS = "/dev/infiniband/uverbs"
_GPU_FILE = regex(r"/dev/nvidia(\d{1,4})")
MPS = "nvidia-cuda-mps"
"""How the names of MPS's server and control daemon begin; comm has 15 letters."""
COLLECTIVES = ("libnccl.so", "libucp", "libnvshmem", "libnixl", "librccl.so")
"""Libraries that move GPU memory over a network, by the beginning of their names."""
HIDES_PAIRS = ("libucp", "nvshmem_transport_", "libnixl")
"""UCX makes its queue pairs by DevX (uct ib_md.c, MLX5_DEVX_OBJECTS), NVSHMEM as well: no table lists them.
NVSHMEM maps a transport once it is used; torch 2.11 maps libnvshmem_host in every process."""


class NodeCircumstances(Struct, frozen=True, kw_only=True):
    """What the node shows, for all processes."""

    as_root: bool  # whether root looked
    buffers: tuple[DmaBuffer, ...] | None  # of GPU memory; None: not known
    buffers_why: str  # why they are not known
    peermem_references: int | None  # 0 also if the module is not loaded; None: not known
    shares: Mapping[str, Mapping[int, AttachmentShare]]  # by RDMA device and process
    attached: Mapping[str, int]  # how many buffers of GPU memory a device is attached to
    attached_elsewhere: (
        bool  # whether a device is attached that is not known as an RDMA device: _elsewhere()
    )
    holdings: Owners
    addresses: Mapping[str, str]
    gpu_ids: Mapping[str, str]  # device ids by PCI address
    port_rates: Mapping[str, int]  # bytes per second of a device's ports
    counting: frozenset[str]  # devices whose queue pairs show what they move: one of them did
    gpu_rates: Mapping[str, PsGpu]  # by PCI address
    computing: Mapping[str, frozenset[int]]  # the processes on each GPU, where NVML lists them
    nvlink_used: frozenset[str]  # GPUs that have moved data over NVLink since the driver was loaded
    sharing: Mapping[str, frozenset[int]]  # the processes with a GPU that map a file in memory
    collective: frozenset[int]  # processes that map a library of COLLECTIVES
    every_context: bool  # whether NVML lists all processes with GPU memory
    every_region: bool  # whether the tables list the regions of all processes
    regions_why: str  # why the tables were not read whole, after a colon; may be empty

    def moved(self, gpus: Iterable[str], *names: str) -> int | None:
        """Bytes per second that GPUs move; None: not known."""
        rates = [self.gpu_rates[address] for address in gpus if address in self.gpu_rates]
        known = [rate for one in rates for name in names if (rate := getattr(one, name)) is not None]
        return sum(known) if known else None

    def gpus_of(self, pid: int) -> list[str]:
        """The GPUs on which a process computes."""
        return [address for address, pids in self.computing.items() if pid in pids]

    def regions_of_others(self, pid: int) -> int:
        """How many regions all other processes and owners that are not known hold."""
        others = [held for one, held in self.holdings.by_process.items() if one != pid]
        return sum(len(h.regions) for held in (*others, self.holdings.nobody) for h in held.values())


class Circumstances(Struct, frozen=True, kw_only=True):
    """What decides about one process."""

    process: RunningProcess
    node: NodeCircumstances
    holdings: Mapping[str, Holdings]
    gpus: tuple[GpuInUse, ...]
    rdma_files: tuple[str, ...]  # RDMA devices that it has open or mapped
    other_fabrics: tuple[str, ...]
    tcp_known: bool | None  # whether its network namespace was asked; None: which one it has is not known

    @property
    def regions(self) -> int:
        return sum(len(held.regions) for held in self.holdings.values())

    @property
    def connected(self) -> int:
        return sum(held.connected for held in self.holdings.values())

    @property
    def nvlink(self) -> int | None:
        """Bytes per second that its GPUs move over NVLink, of all processes; None: not known."""
        return self._moved("nvlink_sent", "nvlink_received")

    @property
    def pcie(self) -> int | None:
        """The same over PCIe."""
        return self._moved("pcie_sent", "pcie_received")

    def _moved(self, *names: str) -> int | None:
        return self.node.moved((gpu.address for gpu in self.gpus), *names)

    def exchanged_with(self, pid: int) -> tuple[int, int]:
        """Bytes per second that its GPUs send over PCIe and those of another process receive, and the other
        way round; the smaller one first."""
        own, other = [gpu.address for gpu in self.gpus], self.node.gpus_of(pid)
        if {*own} & {*other}:  # of one GPU the counters do not show whose bytes they are
            return 0, 0
        there, back = (
            min(self.node.moved(one, "pcie_sent") or 0, self.node.moved(two, "pcie_received") or 0)
            for one, two in ((own, other), (other, own))
        )
        return min(there, back), max(there, back)

    @property
    def alone_on_gpus(self) -> bool:
        """Whether no other process computes on its GPUs."""
        own = frozenset({self.process.pid})
        return bool(self.gpus) and all(self.node.computing.get(gpu.address) == own for gpu in self.gpus)

    @property
    def shared_with(self) -> Mapping[int, int]:
        """The other processes with a GPU that map the same memory, and how many bytes of it."""
        found: dict[int, int] = {}
        for mapping in self.process.shared:
            for pid in self.node.sharing.get(mapping.file, frozenset()) - {self.process.pid}:
                found[pid] = found.get(pid, 0) + mapping.bytes
        return found

    def maps(self, *starts: str) -> bool:
        """Whether it maps a library whose name begins so."""
        return any(library.name.startswith(starts) for library in self.process.libraries)

    @property
    def moving(self) -> bool | None:
        """Whether its queue pairs move packets, or the ports of its devices bytes; None: not known."""
        packets = [held.packets for held in self.holdings.values() if held.packets is not None]
        if any(packets):
            return True
        if not self.maps(*HIDES_PAIRS) and any(map(self._may_not_count, self.holdings.values())):
            return None
        rates = [self.node.port_rates[name] for name in self.holdings if name in self.node.port_rates]
        listed = packets or (not self.connected and any(held.other_pairs for held in self.holdings.values()))
        if listed and not self.maps(*HIDES_PAIRS):
            return False
        return any(rates) if rates else None

    def _may_not_count(self, held: Holdings) -> bool:
        """Whether a device moves data and no queue pair of any process shows it. That the firmware of mlx5
        keeps the sequence numbers current was not seen, and EFA's has none."""
        name = held.device
        return held.packets == 0 and self.node.port_rates.get(name, 0) > 0 and name not in self.node.counting


def node_circumstances(record: RunningRecord) -> NodeCircumstances:
    """What a record shows of its node."""
    buffers, why = _buffers(record)
    holdings = _with_heirs(owners(record.rdma), record)
    addresses = record.addresses()
    attached = {name: _sizes(buffers or (), address) for name, address in addresses.items() if address}
    tables = record.state("rdma")
    incomplete = {
        row.device.device_name
        for row in record.rdma
        if row.device is not None and ("mr" not in row.tables or row.tables["mr"].error)
    }
    return NodeCircumstances(
        as_root=record.uid == 0,
        buffers=buffers,
        buffers_why=why,
        peermem_references=_peermem_references(record),
        shares={
            name: _shares(name, sizes, holdings, whole=name not in incomplete)
            for name, sizes in attached.items()
        },
        attached={name: len(sizes) for name, sizes in attached.items()},
        attached_elsewhere=_elsewhere(buffers or (), addresses),
        holdings=holdings,
        addresses=addresses,
        gpu_ids={row.gpu: row.device_id for row in record.node if row.gpu is not None},
        port_rates=_port_rates(record),
        counting=frozenset(
            name
            for held in (*holdings.by_process.values(), holdings.nobody)
            for name, one in held.items()
            if one.packets
        ),
        gpu_rates={one.address: one for one in gpu_rates(record)},
        computing=_computing(record),
        nvlink_used=frozenset(row.gpu for row in record.nvml if row.nvlink_ever),
        collective=frozenset(
            one.pid
            for one in record.processes
            if any(library.name.startswith(COLLECTIVES) for library in one.libraries)
        ),
        sharing=_sharing(record),
        every_context=_lists_all(record),
        every_region=tables.status == "found" and not incomplete and not is_exclusive(record),
        regions_why="" if tables.status == "found" else f": {tables.why or tables.status}",
    )


def is_exclusive(record: RunningRecord) -> bool:
    """Whether each RDMA device belongs to one network namespace: those of others are not listed."""
    return any((row.system or {}).get("shared") == 0 for row in record.rdma)


def _peermem_references(record: RunningRecord) -> int | None:
    """How many regions nvidia-peermem holds, or its predecessor; None if that is not known."""
    if record.state("node").status != "found":
        return None
    numbers = [
        row.peermem_references
        for row in record.node
        if row.peer_module is not None or row.peermem_references is not None
    ]
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _elsewhere(buffers: tuple[DmaBuffer, ...], addresses: Mapping[str, str]) -> bool:
    """Whether a device is attached to GPU memory that is not known as an RDMA device. It may belong to one:
    with Data Direct another function of a ConnectX-8 is attached (mlx5 mr.c,
    reg_user_mr_dmabuf_by_data_direct())."""
    return any(device not in addresses.values() for one in buffers for device in one.devices)


def _with_heirs(found: Owners, record: RunningRecord) -> Owners:
    """Objects whose maker forked and ended have no owner in any table. They belong to the process that has
    the device open and none of its objects, if all processes are visible and it is the only such one."""
    if not record.lists_all() or record.namespaces.get("pid") != HOST_PID_NAMESPACE:
        return found
    uverbs = record.uverbs()
    for device in [*found.nobody]:
        holders = [
            one.pid
            for one in record.processes
            if device in _rdma_files(one, uverbs) and device not in found.by_process.get(one.pid, {})
        ]
        if len(holders) == 1:
            found.by_process.setdefault(holders[0], {})[device] = found.nobody.pop(device)
    return found


def _rdma_files(process: RunningProcess, uverbs: Mapping[str, str]) -> set[str]:
    """The RDMA devices that a process has open or mapped; a file whose device is not known by its path."""
    files = (*process.devices, *process.mapped_devices)
    return {uverbs.get(file.rpartition("/")[2], file) for file in files if file.startswith(_UVERBS)}


def circumstances(process: RunningProcess, record: RunningRecord, node: NodeCircumstances) -> Circumstances:
    """What a record shows of one process."""
    files = {*process.devices, *process.mapped_devices}
    own = process.namespaces.get("net", "")
    asked = {*record.tcp_namespaces, record.namespaces.get("net", "")} - {""}
    return Circumstances(
        process=process,
        node=node,
        holdings=node.holdings.by_process.get(process.pid, {}),
        gpus=_gpus(process, record),
        rdma_files=tuple(sorted(_rdma_files(process, record.uverbs()))),
        other_fabrics=tuple(sorted(file for file in files if OTHER_FABRIC.fullmatch(file))),
        tcp_known=own in asked if own and asked else None,
    )


def is_integrated(found: Circumstances) -> bool | None:
    """Whether each GPU of a process has no memory of its own; None where its PCI id is not known."""
    return _every(found, gpu_ids.INTEGRATED)


def is_coherent(found: Circumstances) -> bool | None:
    """Whether a GPU of a process shares addresses with the CPU: system memory may lie on the GPU then."""
    return _every(found, gpu_ids.COHERENT)


def _every(found: Circumstances, table: object) -> bool | None:
    ids = [found.node.gpu_ids.get(gpu.address, "") for gpu in found.gpus]
    if not ids or not all(ids):
        return None
    assert hasattr(table, "__contains__")
    return all(one in table for one in ids)


def _buffers(record: RunningRecord) -> tuple[tuple[DmaBuffer, ...] | None, str]:
    state = record.state("buffers")
    if state.status != "found" or not record.buffers:
        return None, state.why or state.status
    if record.buffers[0].truncated:
        return None, "too long to read whole"
    try:
        found = parse_buffers(record.buffers[0].text)
    except FormatError as error:
        return None, str(error)
    return tuple(one for one in found if one.exporter in EXPORTERS), ""


def _sizes(buffers: tuple[DmaBuffer, ...], address: str) -> list[int]:
    return [one.bytes for one in buffers for device in one.devices if device == address]


def _shares(device: str, sizes: list[int], holdings: Owners, *, whole: bool) -> dict[int, AttachmentShare]:
    """The shares of processes in a device's attachments. What has no owner counts as a process of its own,
    with the number 0. Unless the table of regions is whole, others may explain any attachment."""
    regions = {pid: held[device].regions for pid, held in holdings.by_process.items() if device in held}
    if device in holdings.nobody:
        regions[0] = holdings.nobody[device].regions
    return shares(sizes, regions, whole=whole)


def _port_rates(record: RunningRecord) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in record.ports:
        if row.seconds >= SHORTEST_S:
            rate = int((row.sent + row.received) / row.seconds)
            found[row.device] = found.get(row.device, 0) + rate
    return found


def gpu_rates(record: RunningRecord) -> Iterator[PsGpu]:
    """What each GPU on which a process computes moves."""
    for row in record.nvml:
        if row.seconds is not None and row.seconds >= SHORTEST_S:
            names = ("nvlink_sent", "nvlink_received", "pcie_sent", "pcie_received")
            rates = {
                name: None if (moved := getattr(row, name)) is None else int(moved / row.seconds)
                for name in names
            }
            yield PsGpu(address=row.gpu, **rates)


def _computing(record: RunningRecord) -> dict[str, frozenset[int]]:
    """The processes that NVML lists, by GPU."""
    found: dict[str, set[int]] = defaultdict(set)
    for row in record.nvml:
        if row.pid is not None:
            found[row.gpu].add(row.pid)
    return {gpu: frozenset(pids) for gpu, pids in found.items()}


def _sharing(record: RunningRecord) -> dict[str, frozenset[int]]:
    """The processes that compute on a GPU and map a file in memory, by the file: workers that only load data
    do not compute."""
    computing = {row.pid for row in record.nvml if row.pid is not None}
    found: dict[str, set[int]] = defaultdict(set)
    for process in record.processes:
        for mapping in process.shared if process.pid in computing else ():
            found[mapping.file].add(process.pid)
    return {file: frozenset(pids) for file, pids in found.items()}


def _gpus(process: RunningProcess, record: RunningRecord) -> tuple[GpuInUse, ...]:
    """The GPUs on which NVML sees the process compute; where it lists none, those that are open.

    An open descriptor alone misleads: CUDA opens every GPU of a node (seen on two H200s)."""
    indices = {gpu: index for index, gpu in enumerate(sorted(row.gpu for row in record.node if row.gpu))}
    if _lists_processes(record):
        return tuple(
            GpuInUse(address=row.gpu, index=indices.get(row.gpu), computes=True, memory_bytes=row.bytes)
            for row in record.nvml
            if row.pid == process.pid
        )
    minors = {row.minor: row.gpu for row in record.node if row.gpu is not None and row.minor is not None}
    files = {*process.devices, *process.mapped_devices}
    numbers = {int(match[1]) for file in files if (match := _GPU_FILE.fullmatch(file))}
    return tuple(
        GpuInUse(
            address=minors.get(number) or f"/dev/nvidia{number}", index=indices.get(minors.get(number, "")),
            computes=None, memory_bytes=None,
        )
        for number in sorted(numbers)
    )  # fmt: skip


def _lists_processes(record: RunningRecord) -> bool:
    return record.state("nvml").status == "found" and any(row.pid for row in record.nvml)


def _lists_all(record: RunningRecord) -> bool:
    """Whether NVML lists each process that has memory on a GPU: for root, outside containers, without an
    error. The server of MPS may stand for its clients."""
    of_host = record.uid == 0 and record.namespaces.get("pid") == HOST_PID_NAMESPACE
    shared = any(one.name.startswith(MPS) for one in record.processes)
    return _lists_processes(record) and of_host and not shared and not any(row.error for row in record.nvml)
