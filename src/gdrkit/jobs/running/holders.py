"""Who holds which RDMA objects: rows of the kernel's tables, by process.

A row names the thread that made the object; the record has its process. What a thread made that has ended
has no pid: its owner is that of the context behind its PD (Linux restrack.c; seen on 6.1 and 6.12).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct

from gdrkit.jobs.running.record import RdmaObject, RdmaRow

RTS, RC = 3, 2
"""ib_qp_state and ib_qp_type: Linux include/rdma/ib_verbs.h."""
LARGEST_BYTES = 1 << 47
"""Of an address space of x86-64. A region on demand of all memory is longer (mlx5 odp.c)."""
SHORTEST_S = 0.01
"""Of an interval that rates are computed from."""


class Holdings(Struct, kw_only=True):
    """What a process holds on one RDMA device."""

    device: str
    contexts: int = 0
    regions: list[int] = []  # bytes of each memory region
    connected: int = 0  # queue pairs that can send: RTS
    other_pairs: int = 0
    to_themselves: list[int] = []  # numbers of RC pairs in RTS whose peer is the pair itself
    packets: int | None = None  # that its pairs moved in the interval; None: not told
    self_packets: int = 0  # that the pairs to themselves sent
    seconds: float = 0.0  # the interval

    @property
    def registered(self) -> int:
        return sum(self.regions)

    @property
    def packets_per_s(self) -> int | None:
        return (
            None if self.packets is None or self.seconds < SHORTEST_S else int(self.packets / self.seconds)
        )


class Owners(Struct, kw_only=True):
    """Holdings by process and device; and those whose process is not told."""

    by_process: dict[int, dict[str, Holdings]]
    nobody: dict[str, Holdings]
    errors: tuple[str, ...]  # what is not told, such as `table ctx of mlx5_0: EINVAL`


def owners(rows: list[RdmaRow]) -> Owners:
    """The owner of every object."""
    threads = {row.thread: row.process for row in rows if row.thread is not None and row.process is not None}
    moved: dict[tuple[int | None, int | None], RdmaRow] = {
        (row.index, row.qp): row for row in rows if row.qp is not None
    }
    found = Owners(by_process=defaultdict(dict), nobody={}, errors=())
    errors: list[str] = []
    for row in rows:
        if row.why:
            errors.append(f"process of thread {row.thread}: {row.why}")
        if row.device is None:
            continue
        name = row.device.device_name
        errors += [
            f"table {kind} of {name}: {table.error}" for kind, table in row.tables.items() if table.error
        ]
        owner = _Owner(row, threads)
        for kind in ("ctx", "mr", "qp"):
            for one in _rows(row, kind):
                pid = owner.of(one)
                place = found.by_process[pid] if pid else found.nobody
                held = place.setdefault(name, Holdings(device=name, regions=[], to_themselves=[]))
                _count(held, kind, one, moved.get((row.device.index, one.lqpn)))
    found.errors = tuple(errors)
    return found


class _Owner:
    """The process of an object of a device: of its thread, else of its context."""

    def __init__(self, row: RdmaRow, threads: Mapping[int, int]) -> None:
        self._threads = threads
        self._contexts = {one.ctxn: self._process(one.pid) for one in _rows(row, "ctx")}
        self._domains = {one.pdn: one.ctxn for one in _rows(row, "pd")}

    def of(self, one: RdmaObject) -> int:
        """The pid of a process; 0 if it is not told."""
        by_thread = self._process(one.pid)
        if by_thread:
            return by_thread
        context = one.ctxn if one.ctxn is not None else self._domains.get(one.pdn)
        return self._contexts.get(context, 0) if context is not None else 0

    def _process(self, tid: int | None) -> int:
        return 0 if tid is None else self._threads.get(tid, tid)


def _rows(row: RdmaRow, kind: str) -> list[RdmaObject]:
    return row.tables[kind].rows if kind in row.tables else []


def _count(held: Holdings, kind: str, one: RdmaObject, moved: RdmaRow | None) -> None:
    if kind == "ctx":
        held.contexts += 1
    elif kind == "mr":
        held.regions.append(one.bytes if one.bytes <= LARGEST_BYTES else 0)
    elif one.state == RTS:
        held.connected += 1
        itself = one.type == RC and one.lqpn is not None and one.lqpn == one.rqpn
        if itself and one.lqpn is not None:
            held.to_themselves.append(one.lqpn)
        if moved is not None:
            held.packets = (held.packets or 0) + moved.sent_packets + moved.received_packets
            held.seconds = moved.seconds
            held.self_packets += moved.sent_packets if itself else 0
    else:
        held.other_pairs += 1
