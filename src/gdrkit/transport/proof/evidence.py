"""What a proof is judged from: counters before and after known bytes moved, and who holds which memory."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.transport.path_names import PathName

Counter = Literal[
    "nvlink-out",
    "nvlink-in",
    "pcie-out",
    "pcie-in",
    "loopback",
    "network",
    "nic",
    "peermem-references",
    "memory-peer-registrations",
    "dmabuf-attachments",
]
"""`-out` is the sending GPU's, `-in` the receiving one's. The first seven count bytes, the others things."""

Registration = Literal["", "dmabuf", "peermem", "host", "staged"]
"""How an RDMA device holds the memory; "" where none has a part in it."""


class CounterReading(Struct, frozen=True):
    """One counter before and after a window; None and why where it could not be read."""

    counter: Counter
    before: int | None
    after: int | None
    wraps_at: int = 0  # 0: it does not
    unreadable: str = ""


class TrafficWindow(Struct, frozen=True):
    """A span of time in which that many bytes were moved; 0 is a look at what moves without us."""

    bytes_moved: int
    seconds: float
    readings: tuple[CounterReading, ...]


class MemorySearch(Struct, frozen=True):
    """A search for the known bytes in the receiving process's host memory, before anything there looked at
    them.

    `found` counts places. Memory that could not be read makes "not found" worth nothing.
    """

    found: int
    searched_bytes: int
    unread_bytes: int = 0
    unreadable: str = ""


class Trial(Struct, frozen=True, kw_only=True):
    """Transfers over one path, with everything that was read around them."""

    path: PathName  # what the connection says
    source: Literal["gpu", "host"]
    destination: Literal["gpu", "host"]
    one_gpu: bool = False
    one_node: bool = True
    integrated: bool = False  # a GPU whose memory is the host's
    registered: Registration = ""
    registered_there: Registration = ""
    bytes_right: bool | None = None  # whether the bytes at the other end were the known ones
    windows: tuple[TrafficWindow, ...] = ()
    search: MemorySearch | None = None
    refusals: tuple[str, ...] = ()
