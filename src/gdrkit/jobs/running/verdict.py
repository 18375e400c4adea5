"""The decision table: which path a process's GPU memory takes, and how certain that is.

The first row that holds decides. *Registered* is not *used*: that a region of GPU memory exists and that
data moves are two facts, and no source joins them. Unknown is an answer, with what would show more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gdrkit.evidence import Confidence
from gdrkit.facts.usage import EXPORTERS
from gdrkit.formats.plural import plural
from gdrkit.jobs.running import without_network
from gdrkit.jobs.running.circumstances import (
    HIDES_PAIRS,
    Circumstances,
    is_coherent,
    is_integrated,
)
from gdrkit.jobs.running.decisions import Decision, amount, decided, direct
from gdrkit.jobs.running.document import RunningVerdict
from gdrkit.jobs.running.holders import LARGEST_BYTES

ROOT = "as root: sudo gdr ps"


def judge(found: Circumstances) -> RunningVerdict:
    """The verdict on one process."""
    for row in ROWS:
        verdict = row(found)
        if verdict is not None:
            return verdict
    return _unknown(found)


def _open_buffers(found: Circumstances) -> Decision:
    """It holds dma-bufs of GPU memory open, as NVSHMEM does, and NICs are attached to them."""
    inodes = {one.ino for one in found.process.buffers if one.exp_name in EXPORTERS and one.ino is not None}
    attached = [one for one in found.node.buffers or () if one.inode in inodes and one.devices]
    if not attached:
        return None
    devices = ", ".join(sorted({device for one in attached for device in one.devices}))
    size = sum(one.bytes for one in attached)
    return direct(
        found, "dmabuf", Confidence.LIKELY,
        f"{plural(len(attached), 'dma-buf')} of GPU memory on {devices}",
        f"fdinfo: open dma-bufs of GPU memory, {size} bytes; dma_buf/bufinfo: attached to {devices}",
    )  # fmt: skip


def _in_part(devices: Iterable[str]) -> str:
    """NCCL decides for each NIC and each direction whether it uses GPU memory (net.cc, useGdr)."""
    return f"regions of host memory on {', '.join(sorted({*devices}))} are as large: part may go that way"


def _attributed_buffers(found: Circumstances) -> Decision:
    """Attachments of its NICs to GPU memory that no regions of others explain."""
    evidence, regions, size, most, smallest = [], 0, 0, 0, LARGEST_BYTES
    for device in found.holdings:
        share = found.node.shares.get(device, {}).get(found.process.pid)
        if share is None or not share.at_least:
            continue
        regions += share.at_least
        most += share.at_most
        size += share.bytes_at_least
        smallest = min(smallest, share.smallest_bytes)
        evidence.append(
            f"dma_buf/bufinfo: {device} is attached to {plural(share.attached, 'buffer')} of GPU memory; "
            f"by their sizes at least {share.at_least} belong to this process"
        )
    if not regions:
        return None
    number = str(regions) if most == regions else f"{regions} to {most}"
    one = regions == most == 1
    of_host = [
        device for device, held in found.holdings.items()
        if found.node.attached.get(device) == 0 and max(held.regions, default=0) >= smallest
    ]  # fmt: skip
    return direct(
        found, "dmabuf", Confidence.LIKELY,
        f"{number} region{'' if one else 's'} of GPU memory, {amount(size)}", *evidence,
        limits=(_in_part(of_host),) if of_host and not found.node.peermem_references else (),
    )  # fmt: skip


def _peermem(found: Circumstances) -> Decision:
    """nvidia-peermem holds regions, and no other process has any."""
    references = found.node.peermem_references
    if not references or references > found.regions or not found.gpus:
        return None
    if not found.node.every_region or found.node.regions_of_others(found.process.pid):
        return None
    return direct(
        found, "peermem", Confidence.LIKELY, f"{plural(references, 'region')} of nvidia-peermem",
        f"/sys/module: nvidia-peermem has {plural(references, 'reference')}; no other process has memory "
        "regions",
    )  # fmt: skip


def _flushes(found: Circumstances) -> Decision:
    """NCCL's pair of a receiver with itself sends: it flushes what arrived in GPU memory."""
    for held in found.holdings.values():
        if held.to_themselves and held.self_packets and found.maps("libnccl.so"):
            return direct(
                found, "", Confidence.CERTAIN, "NCCL flushes what the NIC writes to GPU memory",
                f"netlink: queue pair {held.to_themselves[0]} of {held.device} is connected to itself and "
                f"sent {held.self_packets} packets (NCCL net_ib.cc: only for GPUDirect RDMA)",
                limits=("of what is sent this shows nothing",),
            )  # fmt: skip
    return None


def _no_gpu(found: Circumstances) -> Decision:
    """It uses no GPU."""
    process = found.process
    files = (*process.devices, *process.mapped_devices)
    if found.gpus or process.denied or any(name.startswith("/dev/nvidia") for name in files):
        return None
    if any(one.exp_name in EXPORTERS for one in process.buffers):  # another process may have sent it
        return None
    return decided(found, "none", "it uses no GPU", Confidence.CERTAIN, "no device of a GPU is open")


def _no_context(found: Circumstances) -> Decision:
    """It has a GPU's device open, as launchers do, and no memory on any: torchrun counts the GPUs."""
    process = found.process
    if found.gpus or process.denied or not found.node.every_context:
        return None
    if found.holdings or found.rdma_files or found.other_fabrics:
        return None
    if any(one.exp_name in EXPORTERS for one in process.buffers):  # another process may have sent it
        return None
    return decided(
        found, "none", "it has a GPU open and no memory on any", Confidence.LIKELY,
        "NVML lists other processes on the GPUs, and not this one; it holds no dma-buf and no RDMA device",
    )  # fmt: skip


def _host_memory(found: Circumstances) -> Decision:
    """Its NICs hold regions, and none of them is GPU memory."""
    node = found.node
    if not found.regions or not found.gpus or node.buffers is None:
        return None
    if node.peermem_references != 0 or any(node.attached.get(device) for device in found.holdings):
        return None
    unplaced = [device for device in found.holdings if not node.addresses.get(device)]
    if node.attached_elsewhere or (unplaced and any(one.devices for one in node.buffers)):
        return None
    if found.other_fabrics or is_coherent(found):
        return None
    return _of_the_host(
        found,
        f"netlink: {plural(found.regions, 'memory region')} on {', '.join(sorted(found.holdings))}",
        "dma_buf/bufinfo: no buffer of GPU memory is attached there; nvidia-peermem holds no region",
    )


def _of_the_host(found: Circumstances, *evidence: str) -> RunningVerdict:
    """Its NICs reach memory of the host only. Of a GPU without memory of its own that is its memory."""
    if is_integrated(found):
        return decided(
            found, "host-mapped", "host memory is the memory of this GPU", Confidence.CERTAIN, *evidence
        )
    known = is_integrated(found) is False and is_coherent(found) is False
    return decided(
        found, "staged", "its NIC holds regions of host memory only",
        Confidence.CERTAIN if known else Confidence.LIKELY, *evidence,
        limits=() if known else ("the kind of this GPU is not known: one may have no other memory",),
    )  # fmt: skip


ROWS: tuple[Callable[[Circumstances], Decision], ...] = (
    _open_buffers, _attributed_buffers, _peermem, _flushes, _no_gpu, _no_context, _host_memory,
    *without_network.ROWS,
)  # fmt: skip


def _unknown(found: Circumstances) -> RunningVerdict:
    """Why nothing decides, and what would."""
    node, process = found.node, found.process
    reasons: list[str] = []
    ask: list[str] = []
    as_root = () if node.as_root else (ROOT,)
    if process.denied:
        reasons.append(
            "its descriptors and maps are not readable" if "fd" in process.denied
            else f"not all of it is readable: {', '.join(process.denied)}"
        )  # fmt: skip
        ask += as_root
    elif found.regions and node.buffers is None:
        reasons.append(f"the table of dma-bufs is not readable: {node.buffers_why}")
        ask += as_root
    elif found.regions and is_coherent(found):
        reasons.append("this GPU shares addresses with the CPU: system memory may lie on it")
    elif found.regions and (node.peermem_references or _shared(found)):
        reasons.append("regions of GPU memory exist, of this process or of another")
        ask.append("the log of the job: gdr nccl job.log")
    elif found.regions and any(one.devices for one in node.buffers or ()):
        reasons.append("a buffer of GPU memory is attached to a device that may belong to its NIC")
    elif found.other_fabrics:
        reasons.append("Slingshot and Omni-Path do not show their memory regions")
    elif found.regions and node.peermem_references is None:
        reasons.append("how many regions nvidia-peermem holds is not readable")
    elif found.regions:
        reasons.append("it has memory regions, and the GPU on which it computes is not known")
    elif (found.holdings or found.rdma_files) and not node.every_region:
        reasons.append(f"it has an RDMA device open, and not every region is listed{node.regions_why}")
    elif found.holdings or found.rdma_files:
        reasons.append("it has an RDMA device open and no memory region")
    elif found.tcp_known is False:
        reasons.append("it lives in another network namespace: its connections are not visible from here")
        ask.append("inside its namespace: nsenter --target PID --net gdr ps")
    elif (found.pcie or 0) >= without_network.DATA_BYTES_PER_S:
        reasons.append(
            f"its GPU moves {amount(found.pcie or 0)}/s over PCIe: to other GPUs or to host memory"
        )
    else:
        reasons.append("neither its connections nor its GPUs move data to others now")
    limits = ("queue pairs of DevX are in no table",) if found.maps(*HIDES_PAIRS) else ()
    return RunningVerdict(
        path="unknown", registered_by="", confidence=None, moving=found.moving, because=reasons[0],
        evidence=(), limits=limits, ask=tuple(ask),
    )  # fmt: skip


def _shared(found: Circumstances) -> bool:
    return any(found.node.attached.get(device) for device in found.holdings)
