"""The evidence of a proof: counters before and after known bytes moved, registrations, a memory search."""

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
"""`-out` is of the sending GPU, `-in` of the receiving one. The first seven count bytes, the others
objects.
"""

Registration = Literal["", "dmabuf", "peermem", "host", "staged"]
"""How the memory is registered with an RDMA device; "" if no RDMA device is involved."""


class CounterReading(Struct, frozen=True):
    """One counter before and after a window; None, and the reason in `unreadable`, if it could not be
    read.
    """

    counter: Counter
    before: int | None
    after: int | None
    wraps_at: int = 0  # 0: it does not wrap
    unreadable: str = ""


class TrafficWindow(Struct, frozen=True):
    """A time span in which `bytes_moved` bytes were sent. 0: an idle window, which shows other traffic."""

    bytes_moved: int
    seconds: float
    readings: tuple[CounterReading, ...]


class MemorySearch(Struct, frozen=True):
    """A search for the known bytes in the receiving process's host memory, before that process read them.

    `found` is the number of occurrences. If some memory could not be read, "not found" shows nothing.
    """

    found: int
    searched_bytes: int
    unread_bytes: int = 0
    unreadable: str = ""


class Trial(Struct, frozen=True, kw_only=True):
    """Transfers over one path, with all readings before and after."""

    path: PathName  # as reported by the connection
    source: Literal["gpu", "host"]
    destination: Literal["gpu", "host"]
    one_gpu: bool = False
    one_node: bool = True
    integrated: bool = False  # the GPU's memory is host memory
    registered: Registration = ""
    registered_there: Registration = ""
    bytes_right: bool | None = None  # whether the other end received the known bytes
    windows: tuple[TrafficWindow, ...] = ()
    search: MemorySearch | None = None
    refusals: tuple[str, ...] = ()
