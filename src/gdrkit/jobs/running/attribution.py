"""Whose regions the attachments of a NIC to dma-bufs of GPU memory are.

The kernel's table of dma-bufs names NICs and no processes; the tables of RDMA name processes and not what
a region is. Sizes join them: a region of a dma-buf is as long as the buffer, in whole pages. What the
regions of all others cannot explain is this process's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

PAGE_BYTES = 4096
"""The smallest page. A buffer has whole pages of the host; a region may be some bytes shorter."""


class AttachmentShare(Struct, frozen=True, kw_only=True):
    """How many of a NIC's attachments are a process's regions."""

    at_least: int
    at_most: int
    bytes_at_least: int
    smallest_bytes: int  # of those at least; 0: none
    attached: int  # of the NIC, of all processes
    explained: bool  # whether regions explain every attachment


def shares(
    attached: Iterable[int], regions: Mapping[int, Iterable[int]], *, whole: bool = True
) -> dict[int, AttachmentShare]:
    """The share of each process in the attachments of one NIC, by their sizes in bytes. `regions` has the
    sizes of each process's regions on that NIC: of all processes if it is whole."""
    buffers = Counter(map(_pages, attached))
    held = {pid: Counter(map(_pages, sizes)) for pid, sizes in regions.items()}
    every: Counter[int] = Counter()
    for counts in held.values():
        every.update(counts)
    explained = whole and all(every[size] >= number for size, number in buffers.items())
    found = {}
    for pid, counts in held.items():
        most = {size: min(number, counts[size]) for size, number in buffers.items()}
        least = {size: max(0, number - (every[size] - counts[size])) for size, number in buffers.items()}
        if not explained:  # others are memory of DevX, or of the kernel
            least = dict.fromkeys(least, 0)
        found[pid] = AttachmentShare(
            at_least=sum(least.values()), at_most=sum(most.values()), attached=sum(buffers.values()),
            bytes_at_least=sum(size * number * PAGE_BYTES for size, number in least.items()),
            smallest_bytes=min((size * PAGE_BYTES for size, number in least.items() if number), default=0),
            explained=explained,
        )  # fmt: skip
    return found


def _pages(size: int) -> int:
    return -(-size // PAGE_BYTES)
