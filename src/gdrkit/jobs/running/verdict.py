"""The decision table: which way a process's GPU memory goes, and how certain that is.

The first row that holds decides. *Registered* is not *used*: that a region of GPU memory exists and that
data moves are two facts, and no source joins them. Unknown is an answer, with what would show more.
"""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.evidence import Confidence
from gdrkit.facts.usage import EXPORTERS
from gdrkit.jobs.running.circumstances import (
    COLLECTIVES,
    HIDES_PAIRS,
    Circumstances,
    is_coherent,
    is_integrated,
)
from gdrkit.jobs.running.document import RunningVerdict

SOCKET_BYTES_PER_S = 1_000_000
"""From here on TCP carries data and not only control: heartbeats and stores of a job move some kB/s. A
choice of ours."""
DATA_BYTES_PER_S = 100_000_000
"""The same where other traffic is usual: of a GPU over PCIe, where the start of kernels takes some MB/s, and
of a program's connections on its own node. A choice of ours."""
SHARED_BYTES = 1_000_000
"""Memory that carries data, and not only flags. NCCL's buffers have 4 MiB (NCCL_BUFFSIZE)."""
ROOT = "as root: sudo gdr ps"
NO_NETWORK = "no RDMA device is open or mapped, and no other fabric"
NOT_ITS_MEMORY = "what TCP carries may be other data than GPU memory: a program that reads files looks alike"
USED = "registered is not used: no source joins a region with the bytes that move"

Decision = RunningVerdict | None


def judge(found: Circumstances) -> RunningVerdict:
    """The verdict on one process."""
    for row in ROWS:
        decided = row(found)
        if decided is not None:
            return decided
    return _unknown(found)


def _open_buffers(found: Circumstances) -> Decision:
    """It holds dma-bufs of GPU memory open, as NVSHMEM does, and NICs are attached to them."""
    inodes = {one.ino for one in found.process.buffers if one.exp_name in EXPORTERS and one.ino is not None}
    attached = [one for one in found.node.buffers or () if one.inode in inodes and one.devices]
    if not attached:
        return None
    devices = ", ".join(sorted({device for one in attached for device in one.devices}))
    size = sum(one.bytes for one in attached)
    return _direct(
        found, "dmabuf", Confidence.LIKELY,
        f"{counted(len(attached), 'dma-buf')} of GPU memory on {devices}",
        f"fdinfo: open dma-bufs of GPU memory, {size} bytes; dma_buf/bufinfo: attached to {devices}",
    )  # fmt: skip


def _walked_buffers(found: Circumstances) -> Decision:
    """The kernel's own objects show that regions of it are dma-bufs of GPU memory."""
    buffers = [one for one in found.walked if one.kind == "dmabuf" and one.exporter in EXPORTERS]
    if not buffers:
        return None
    devices = ", ".join(sorted({one.importer or one.device for one in buffers}))
    return _direct(
        found, "dmabuf", Confidence.CERTAIN,
        f"{counted(len(buffers), 'region')} of GPU memory, {amount(sum(one.bytes for one in buffers))}",
        f"kcore: {len(buffers)} of {counted(len(found.walked), 'region')} are dma-bufs of "
        f"{buffers[0].exporter} on {devices}",
    )  # fmt: skip


def _walked_peermem(found: Circumstances) -> Decision:
    """Regions of it are memory of a client of peer memory: the kernel says so, or the process itself cannot
    access the area. (Until Linux 6.2 a region that is only read may lie there, too: umem.c, FOLL_FORCE.)"""
    said = [one for one in found.walked if one.kind == "peermem"]
    hidden = [
        one for one in found.walked if one.kind == "user" and one.writable and one.area.startswith("---p")
    ]
    if not found.gpus or not (said or hidden):
        return None
    size = amount(sum(one.bytes for one in (*said, *hidden)))
    return _direct(
        found, "peermem", Confidence.CERTAIN if said else Confidence.LIKELY,
        f"{counted(len(said) + len(hidden), 'region')} of peer memory, {size}",
        f"kcore: {len(said)} are of peer memory, and {len(hidden)} lie in areas that the process itself "
        "cannot access (---p)",
    )  # fmt: skip


def _walked_host_memory(found: Circumstances) -> Decision:
    """Every region of it is memory of the host."""
    plain = [
        one for one in found.walked
        if one.kind == "user" and one.area.startswith("rw") and "/dev/nvidia" not in one.area
    ]  # fmt: skip
    if not plain or len(plain) != found.regions or not found.gpus or found.maps(*HIDES_PAIRS):
        return None
    if found.other_fabrics or is_coherent(found):
        return None
    return _of_the_host(
        found, f"kcore: all {counted(len(plain), 'region')} are memory of the process itself"
    )


def _attributed_buffers(found: Circumstances) -> Decision:
    """Attachments of its NICs to GPU memory that no regions of others explain."""
    evidence, regions, size, most = [], 0, 0, 0
    for device in found.holdings:
        share = found.node.shares.get(device, {}).get(found.process.pid)
        if share is None or not share.at_least:
            continue
        regions += share.at_least
        most += share.at_most
        size += share.bytes_at_least
        evidence.append(
            f"dma_buf/bufinfo: {device} is attached to {counted(share.attached, 'buffer')} of GPU memory; "
            f"by their sizes at least {share.at_least} belong to this process"
        )
    if not regions:
        return None
    number = str(regions) if most == regions else f"{regions} to {most}"
    one = regions == most == 1
    return _direct(
        found, "dmabuf", Confidence.LIKELY,
        f"{number} region{'' if one else 's'} of GPU memory, {amount(size)}", *evidence,
    )  # fmt: skip


def _peermem(found: Circumstances) -> Decision:
    """nvidia-peermem holds regions, and no other process has any."""
    references = found.node.peermem_references
    if not references or references > found.regions or not found.gpus:
        return None
    if found.node.regions_of_others(found.process.pid):
        return None
    return _direct(
        found, "peermem", Confidence.LIKELY, f"{counted(references, 'region')} of nvidia-peermem",
        f"/sys/module/nvidia_peermem/refcnt: {references}; no other process has memory regions",
    )  # fmt: skip


def _flushes(found: Circumstances) -> Decision:
    """NCCL's pair of a receiver with itself sends: it flushes what arrived in GPU memory."""
    for held in found.holdings.values():
        if held.to_themselves and held.self_packets and found.maps("libnccl.so"):
            return _direct(
                found, "", Confidence.CERTAIN, "NCCL flushes what the NIC writes to GPU memory",
                f"netlink: queue pair {held.to_themselves[0]} of {held.device} is connected to itself and "
                f"sent {held.self_packets} packets (NCCL net_ib.cc: only for GPUDirect RDMA)",
                limits=("of what is sent this shows nothing",),
            )  # fmt: skip
    return None


def _no_gpu(found: Circumstances) -> Decision:
    """It uses no GPU."""
    process = found.process
    if (
        found.gpus
        or "fd" in process.denied
        or any(name.startswith("/dev/nvidia") for name in process.devices)
    ):
        return None
    return _verdict(found, "none", "it uses no GPU", Confidence.CERTAIN, "no device of a GPU is open")


def _host_memory(found: Circumstances) -> Decision:
    """Its NICs hold regions, and none of them is GPU memory."""
    node = found.node
    if not found.regions or not found.gpus or node.buffers is None:
        return None
    if node.peermem_references or any(node.attached.get(device) for device in found.holdings):
        return None
    unplaced = [device for device in found.holdings if not node.addresses.get(device)]
    if unplaced and any(one.devices for one in node.buffers):
        return None
    if found.other_fabrics or is_coherent(found):
        return None
    peermem = "not loaded" if node.peermem_references is None else "holds no region"
    return _of_the_host(
        found,
        f"netlink: {counted(found.regions, 'memory region')} on {', '.join(sorted(found.holdings))}",
        f"dma_buf/bufinfo: no buffer of GPU memory is attached there; nvidia-peermem: {peermem}",
    )


def _of_the_host(found: Circumstances, *evidence: str) -> RunningVerdict:
    """Its NICs reach memory of the host only. Of a GPU without memory of its own that is its memory."""
    if is_integrated(found):
        return _verdict(
            found, "host-mapped", "host memory is the memory of this GPU", Confidence.CERTAIN, *evidence
        )
    known = is_integrated(found) is False and is_coherent(found) is False
    return _verdict(
        found, "staged", "its NIC holds regions of host memory only",
        Confidence.CERTAIN if known else Confidence.LIKELY, *evidence,
        limits=() if known else ("the kind of this GPU is not known: one may have no other memory",),
    )  # fmt: skip


def _socket(found: Circumstances) -> Decision:
    """It has no network device, and moves data to other nodes over TCP."""
    process = found.process
    if not _without_network(found) or not found.gpus or not found.tcp_known:
        return None
    rate = process.tcp.sent + process.tcp.received
    if rate < (SOCKET_BYTES_PER_S if found.maps(*COLLECTIVES) else DATA_BYTES_PER_S):
        return None
    return _verdict(
        found, "socket", f"TCP to other nodes, {amount(rate)}/s", Confidence.LIKELY, NO_NETWORK,
        f"inet_diag: its connections to other nodes move {rate} bytes/s", limits=(NOT_ITS_MEMORY,),
    )  # fmt: skip


def _nvlink(found: Circumstances) -> Decision:
    """It has no network device, and its GPUs move more over NVLink than it moves over TCP."""
    rate = found.nvlink or 0
    if not _without_network(found) or rate < max(SOCKET_BYTES_PER_S, _here(found)):
        return None
    return _verdict(
        found, "nvlink", f"NVLink of its GPU{'s' if len(found.gpus) > 1 else ''}, {amount(rate)}/s",
        Confidence.CERTAIN if found.alone_on_gpus else Confidence.LIKELY, NO_NETWORK,
        f"NVML: its GPUs move {rate} bytes/s over NVLink",
        limits=() if found.alone_on_gpus else ("other processes compute on the same GPUs",),
    )  # fmt: skip


def _socket_here(found: Circumstances) -> Decision:
    """It moves data to processes on this node over TCP, and NVLink moves less."""
    rate = _here(found)
    if not _without_network(found) or not found.gpus or rate < DATA_BYTES_PER_S:
        return None
    return _verdict(
        found, "socket", f"TCP on this node, {amount(rate)}/s", Confidence.LIKELY, NO_NETWORK,
        f"inet_diag: its connections on this node move {rate} bytes/s", limits=(NOT_ITS_MEMORY,),
    )  # fmt: skip


def _shared_memory(found: Circumstances) -> Decision:
    """It shares memory with a process on another GPU, and what one of the two GPUs sends over PCIe the other
    receives. Programs that only load data, and share flags or commands, receive on both."""
    if not _without_network(found):
        return None
    rates = {
        pid: found.exchanged_with(pid)[1] for pid, size in found.shared_with.items() if size >= SHARED_BYTES
    }
    pid = max(rates, key=rates.__getitem__, default=0)
    if not pid or rates[pid] < DATA_BYTES_PER_S:
        return None
    size = amount(found.shared_with[pid])
    return _verdict(
        found, "staged", f"its GPU and that of process {pid} exchange {amount(rates[pid])}/s over PCIe",
        Confidence.LIKELY, NO_NETWORK, f"maps: {size} of memory are shared with process {pid}",
        f"NVML: what one sends and the other receives over PCIe is {rates[pid]} bytes/s; "
        f"over NVLink it moves {found.nvlink or 0}",
        limits=("what else they load or save moves over PCIe, too",),
    )  # fmt: skip


def _drivers_memory(found: Circumstances) -> Decision:
    """It and another process map NCCL, and their GPUs exchange data over PCIe in both directions, although
    NVLink is there or NCCL must not use it. NCCL may share memory of the driver, which no file shows
    (NCCL_CUMEM_HOST_ENABLE; seen with 2.28.9)."""
    barred = found.process.environment.get("NCCL_P2P_DISABLE", "0") not in ("", "0")
    linked = all(gpu.address in found.node.nvlink_used for gpu in found.gpus)
    if not _without_network(found) or not found.maps(*COLLECTIVES) or not (barred or linked):
        return None
    rates = {pid: found.exchanged_with(pid)[0] for pid in found.node.collective - {found.process.pid}}
    pid = max(rates, key=rates.__getitem__, default=0)
    if not pid or rates[pid] < DATA_BYTES_PER_S:
        return None
    why = (
        "environ: NCCL_P2P_DISABLE" if barred else "NVML: its GPUs have used NVLink since the driver started"
    )
    return _verdict(
        found, "staged", f"its GPU and that of process {pid} exchange {amount(rates[pid])}/s over PCIe",
        Confidence.LIKELY, NO_NETWORK, why,
        f"NVML: in each direction {rates[pid]} bytes/s leave one GPU over PCIe and reach the other; "
        f"over NVLink it moves {found.nvlink or 0}",
        limits=("what both load and save at the same time would look alike",),
    )  # fmt: skip


def _no_network(found: Circumstances) -> Decision:
    """It has no network device, and no library that would use one."""
    if not _without_network(found) or found.maps(*COLLECTIVES) or found.process.devices.get("/dev/gdrdrv"):
        return None
    return _verdict(
        found, "none", "it uses no network for GPU memory", Confidence.LIKELY,
        "no device of a network is open, and no library for it is mapped",
        limits=("a library other than NCCL that is linked into the program is not seen",),
    )  # fmt: skip


def _without_network(found: Circumstances) -> bool:
    """Whether it is known to use neither RDMA nor another fabric."""
    return not (found.process.denied or found.holdings or found.rdma_files or found.other_fabrics)


def _here(found: Circumstances) -> int:
    """Bytes per second that it moves to processes on this node over TCP, where that is known."""
    tcp = found.process.tcp
    return tcp.sent_here + tcp.received_here if found.tcp_known else 0


ROWS: tuple[Callable[[Circumstances], Decision], ...] = (
    _walked_buffers, _walked_peermem, _walked_host_memory, _open_buffers, _attributed_buffers, _peermem,
    _flushes, _no_gpu, _host_memory,
    _socket, _nvlink, _socket_here, _shared_memory, _drivers_memory, _no_network,
)  # fmt: skip


def _unknown(found: Circumstances) -> RunningVerdict:
    """Why nothing decides, and what would."""
    node, process = found.node, found.process
    reasons: list[str] = []
    ask: list[str] = []
    if process.denied:
        reasons.append("its descriptors and maps are not readable")
        ask.append(ROOT)
    elif found.regions and node.buffers is None:
        reasons.append(f"the table of dma-bufs is not readable: {node.buffers_why}")
        ask.append(ROOT)
    elif found.regions and is_coherent(found):
        reasons.append("this GPU shares addresses with the CPU: system memory may lie on it")
    elif found.regions and (node.peermem_references or _shared(found)):
        reasons.append("regions of GPU memory exist, of this process or of another")
        ask.append(
            "sudo gdr ps --deep, which reads the kernel's memory; or the log of the job: gdr nccl job.log"
        )
    elif found.regions and any(one.devices for one in node.buffers or ()):
        reasons.append("a buffer of GPU memory is attached to a device that is not known by its PCI address")
    elif found.other_fabrics:
        reasons.append("Slingshot and Omni-Path do not show their memory regions")
    elif found.holdings or found.rdma_files:
        reasons.append("it has an RDMA device open and no memory region")
    elif found.tcp_known is False:
        reasons.append("it lives in another network namespace: its connections are not visible from here")
        ask.append("inside its namespace: nsenter --target PID --net gdr ps")
    elif (found.pcie or 0) >= DATA_BYTES_PER_S:
        reasons.append(
            f"its GPU moves {amount(found.pcie or 0)}/s over PCIe: to other GPUs or to host memory"
        )
    else:
        reasons.append("neither its connections nor its GPUs move data to others now")
    limits = ("queue pairs of DevX are in no table",) if found.maps(*HIDES_PAIRS) else ()
    return RunningVerdict(
        way="unknown", registered_by="", confidence=None, moving=found.moving, because=reasons[0],
        evidence=(), limits=limits, ask=tuple(ask),
    )  # fmt: skip


def _shared(found: Circumstances) -> bool:
    return any(found.node.attached.get(device) for device in found.holdings)


def _direct(
    found: Circumstances, way: str, confidence: Confidence, because: str, *evidence: str,
    limits: tuple[str, ...] = (),
) -> RunningVerdict:  # fmt: skip
    return RunningVerdict(
        way="direct", registered_by="dmabuf" if way == "dmabuf" else "peermem" if way == "peermem" else "",
        confidence=confidence, moving=found.moving, because=because, evidence=evidence,
        limits=(USED, *limits) if way else limits, ask=(),
    )  # fmt: skip


def _verdict(
    found: Circumstances, way: str, because: str, confidence: Confidence, *evidence: str,
    limits: tuple[str, ...] = (),
) -> RunningVerdict:  # fmt: skip
    moving = True if not found.holdings and way in ("socket", "nvlink", "staged") else found.moving
    return RunningVerdict(
        way=way, registered_by="", confidence=confidence, moving=moving, because=because,  # type: ignore[arg-type]
        evidence=evidence, limits=limits, ask=(),
    )  # fmt: skip


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def amount(number: int) -> str:
    """A number of bytes for a reader, in decimal units."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} bytes"
