"""Whether a direct path is in use now. Only this makes a path active rather than ready."""

from __future__ import annotations

import re
from collections import Counter

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.driver import driver_flavour, peermem_linkage
from gdrkit.facts.loaded_modules import running
from gdrkit.facts.modules import PEERMEM
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, observation

BUFINFO = "sys/kernel/debug/dma_buf/bufinfo"
EXPORTERS = ("nv_dmabuf", "nvidia")
"""The exporter names of NVIDIA's module: open-gpu-kernel-modules kernel-open/nvidia/nv-dmabuf.c. Since
580.65.06 it sets exp_name; before, DEFINE_DMA_BUF_EXPORT_INFO took the module's name."""

_BUFFER = regex(
    r"(\d{8,20})\t[0-9a-f]{8}\t[0-9a-f]{8}\t\d{8,20}\t(\S{1,64})(?:\t(\d{8,20})\t.*)?", re.DOTALL
)
_ATTACHED = regex(r"\t([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


@observation(peermem_linkage)
def peermem_regions(node: Node) -> int:
    """The number of memory regions that are registered through nvidia-peermem now.

    Each region takes a reference on the module, and nothing else does, since no module depends on it.
    Source: nvidia-peermem.c, nv_mem_acquire(), __module_get(). Raises EvidenceAbsent if it is not loaded.
    """
    count = running(node, PEERMEM).reference_count
    if count is None:
        path = f"sys/module/{PEERMEM}/refcnt"
        raise EvidenceMissing(Missing(path, MissingReason.NOT_COLLECTED, f"cat {quoted(f'/{path}')}"))
    node.cite(f"sys/module/{PEERMEM}/refcnt", text=str(count))
    return count


@observation(driver_flavour)
def dmabuf_importers(node: Node) -> frozenset[str]:
    """PCI addresses of devices that are attached to dma-bufs of GPU memory now. Readable by root only.

        Dma-buf Objects:
        size      flags     mode      count     exp_name   ino       name
        02097152  00000002  00080007  00000002  nv_dmabuf  00000004  <none>
                Attached Devices:
                0000:17:00.0
        Total 1 devices attached

    A job that uses Data Direct is attached by that function of the ConnectX-8, which names no RDMA device:
    Linux drivers/infiniband/hw/mlx5/mr.c, reg_user_mr_dmabuf_by_data_direct().

    Source: Linux drivers/dma-buf/dma-buf.c, dma_buf_debug_show().
    """
    attached = parse_attachments(node.text(BUFINFO))
    return frozenset(nic for exporter in EXPORTERS for nic in attached.get(exporter, {}))


def parse_attachments(text: str) -> dict[str, Counter[str]]:
    """For each exporter, how often each device is attached to its buffers. Raises FormatError."""
    found: dict[str, Counter[str]] = {}
    for buffer in parse_buffers(text):
        for device in buffer.devices:
            found.setdefault(buffer.exporter, Counter())[device] += 1
    return found


class DmaBuffer(Struct, frozen=True, kw_only=True):
    """A dma-buf, and the PCI devices that are attached to it, one twice if it is attached twice."""

    exporter: str
    bytes: int
    inode: int | None  # not in tables of kernels before 5.10
    devices: tuple[str, ...]


def parse_buffers(text: str) -> tuple[DmaBuffer, ...]:
    """The table of dma-bufs. Raises FormatError.

    Who holds a buffer names it, perhaps with line breaks, but with 31 characters at most (DMA_BUF_SET_NAME):
    too few for the beginning of a row. What is attached follows the last `Attached Devices:` of its row."""
    if "Dma-buf Objects" not in text[:200]:
        raise FormatError("no line `Dma-buf Objects`")
    found: list[tuple[re.Match[str], list[str]]] = []
    for line in text.split("\n"):
        if row := _BUFFER.fullmatch(line):
            found.append((row, []))
        elif found and line == "\tAttached Devices:":
            found[-1][1].clear()
        elif found and (device := _ATTACHED.fullmatch(line)):
            found[-1][1].append(device[1])
    return tuple(
        DmaBuffer(
            exporter=row[2],
            bytes=whole_number(row[1]) or 0,
            inode=whole_number(row[3]) if row[3] else None,
            devices=tuple(devices),
        )
        for row, devices in found
    )
