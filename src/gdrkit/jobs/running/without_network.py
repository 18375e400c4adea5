"""The rows of the decision table for processes that have no network device: TCP, NVLink, PCIe, or nothing.

What they move is seen as rates, never as the memory that it came from: only the row of NVLink is certain.
"""

from __future__ import annotations

from gdrkit.evidence import Confidence
from gdrkit.jobs.running.circumstances import COLLECTIVES, Circumstances
from gdrkit.jobs.running.decisions import Decision, amount, decided

SOCKET_BYTES_PER_S = 1_000_000
"""From here on TCP carries data and not only control: heartbeats and stores of a job move some kB/s. A
choice of ours."""
DATA_BYTES_PER_S = 100_000_000
"""The same where other traffic is usual: of a GPU over PCIe, where the start of kernels takes some MB/s, and
of a program's connections on its own node. A choice of ours."""
SHARED_BYTES = 1_000_000
"""Memory that carries data, and not only flags. NCCL's buffers have 4 MiB (NCCL_BUFFSIZE)."""
NO_NETWORK = "no RDMA device is open or mapped, and no other fabric"
NOT_ITS_MEMORY = "what TCP carries may be other data than GPU memory: a program that reads files looks alike"


def socket(found: Circumstances) -> Decision:
    """It has no network device, and moves data to other nodes over TCP."""
    process = found.process
    if not without_network(found) or not found.gpus or not found.tcp_known:
        return None
    rate = process.tcp.sent + process.tcp.received
    if rate < (SOCKET_BYTES_PER_S if found.maps(*COLLECTIVES) else DATA_BYTES_PER_S):
        return None
    return decided(
        found, "socket", f"TCP to other nodes, {amount(rate)}/s", Confidence.LIKELY, NO_NETWORK,
        f"inet_diag: its connections to other nodes move {rate} bytes/s", limits=(NOT_ITS_MEMORY,),
    )  # fmt: skip


def nvlink(found: Circumstances) -> Decision:
    """It has no network device, and its GPUs move more over NVLink than it moves over TCP."""
    rate = found.nvlink or 0
    if not without_network(found) or rate < max(SOCKET_BYTES_PER_S, _here(found)):
        return None
    return decided(
        found, "nvlink", "its GPU moves data over NVLink, and it uses no network",
        Confidence.CERTAIN if found.alone_on_gpus else Confidence.LIKELY, NO_NETWORK,
        f"NVML: its GPUs move {rate} bytes/s over NVLink",
        limits=() if found.alone_on_gpus else ("other processes compute on the same GPUs",),
    )  # fmt: skip


def socket_here(found: Circumstances) -> Decision:
    """It moves data to processes on this node over TCP, and NVLink moves less."""
    rate = _here(found)
    if not without_network(found) or not found.gpus or rate < DATA_BYTES_PER_S:
        return None
    return decided(
        found, "socket", f"TCP on this node, {amount(rate)}/s", Confidence.LIKELY, NO_NETWORK,
        f"inet_diag: its connections on this node move {rate} bytes/s", limits=(NOT_ITS_MEMORY,),
    )  # fmt: skip


def shared_memory(found: Circumstances) -> Decision:
    """It shares memory with a process on another GPU, and what one of the two GPUs sends over PCIe the other
    receives. Programs that only load data, and share flags or commands, receive on both."""
    if not without_network(found):
        return None
    rates = {
        pid: found.exchanged_with(pid)[1] for pid, size in found.shared_with.items() if size >= SHARED_BYTES
    }
    pid = max(rates, key=rates.__getitem__, default=0)
    if not pid or rates[pid] < DATA_BYTES_PER_S:
        return None
    size = amount(found.shared_with[pid])
    return decided(
        found, "staged", "its GPU exchanges data with that of another process over PCIe",
        Confidence.LIKELY, NO_NETWORK, f"maps: {size} of memory are shared with process {pid}",
        f"NVML: what it sends and that process receives over PCIe, or back, is {rates[pid]} bytes/s; "
        f"over NVLink it moves {found.nvlink or 0}",
        limits=("what else they load or save moves over PCIe, too",),
    )  # fmt: skip


def drivers_memory(found: Circumstances) -> Decision:
    """It and another process map NCCL, and their GPUs exchange data over PCIe in both directions, although
    NVLink is there or NCCL must not use it. NCCL may share memory of the driver, which no file shows
    (NCCL_CUMEM_HOST_ENABLE; seen with 2.28.9)."""
    barred = found.process.environment.get("NCCL_P2P_DISABLE", "0") not in ("", "0")
    linked = all(gpu.address in found.node.nvlink_used for gpu in found.gpus)
    if not without_network(found) or not found.maps(*COLLECTIVES) or not (barred or linked):
        return None
    rates = {pid: found.exchanged_with(pid)[0] for pid in found.node.collective - {found.process.pid}}
    pid = max(rates, key=rates.__getitem__, default=0)
    if not pid or rates[pid] < DATA_BYTES_PER_S:
        return None
    why = (
        "environ: NCCL_P2P_DISABLE" if barred else "NVML: its GPUs have used NVLink since the driver started"
    )
    return decided(
        found, "staged", "its GPU exchanges data with that of another process over PCIe",
        Confidence.LIKELY, NO_NETWORK, why,
        f"NVML: in each direction {rates[pid]} bytes/s go over PCIe between it and process {pid}; "
        f"over NVLink it moves {found.nvlink or 0}",
        limits=("what both load and save at the same time would look alike",),
    )  # fmt: skip


def no_network(found: Circumstances) -> Decision:
    """It has no network device, and no library that would use one."""
    if not without_network(found) or found.maps(*COLLECTIVES) or found.process.devices.get("/dev/gdrdrv"):
        return None
    return decided(
        found, "none", "it uses no network for GPU memory", Confidence.LIKELY,
        "no device of a network is open, and no library for it is mapped",
        limits=("a library other than NCCL that is linked into the program is not seen",),
    )  # fmt: skip


def without_network(found: Circumstances) -> bool:
    """Whether it is known to use neither RDMA nor another fabric."""
    return not (found.process.denied or found.holdings or found.rdma_files or found.other_fabrics)


def _here(found: Circumstances) -> int:
    """Bytes per second that it moves to processes on this node over TCP, where that is known."""
    tcp = found.process.tcp
    return tcp.sent_here + tcp.received_here if found.tcp_known else 0


ROWS = (socket, nvlink, socket_here, shared_memory, drivers_memory, no_network)
