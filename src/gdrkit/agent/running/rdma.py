"""Who holds which RDMA objects: the kernel's own table, over netlink. Anyone may ask.

Numbers: Linux include/uapi/rdma/rdma_netlink.h. A kernel that does not know a table answers EINVAL or
EOPNOTSUPP: that is "not told", never "none". Keys (rkey, lkey) are not asked for.

Contexts, PDs, CQs and MRs are read from memory. Each row of a QP is one firmware command on mlx5 (mlx5_ib
qp.c, mlx5_ib_query_qp), so a second sample is taken of few QPs only.
"""

from __future__ import annotations

import errno
import socket
import time
from typing import Any, Dict, List, Mapping, NamedTuple

from .children import Emit
from .files import start_of, ticks_after_boot
from .netlink import Link, attribute, attributes, row

NETLINK_RDMA = 20
_CLIENT = 5 << 10  # RDMA_NL_NLDEV
_GET, _SYS_GET, _RES_GET = 1, 6, 9
_DEVICE = {1: "index", 2: "device_name", 67: "protocol_name"}
_SUMMARY, _ENTRY, _SUMMARY_ROW = 15, 16, {17: "object_name", 18: "count"}
_NETNS_MODE = {66: "shared"}


class Table(NamedTuple):
    """A kind of object: the command that lists it, its nest of rows, the attributes of a row."""

    command: int
    nest: int
    names: Mapping[int, str]


_OWNER = {28: "pid", 29: "kernel_name"}
TABLES = {
    "ctx": Table(22, 86, {64: "ctxn", **_OWNER}),
    "pd": Table(14, 46, {60: "pdn", 64: "ctxn", **_OWNER}),
    "cq": Table(12, 35, {61: "cqn", 64: "ctxn", **_OWNER}),
    "mr": Table(13, 40, {62: "mrn", 45: "bytes", 60: "pdn", **_OWNER}),
    "qp": Table(10, 19, {3: "port", 21: "lqpn", 22: "rqpn", 23: "rq_psn", 24: "sq_psn", 26: "type",
                         27: "state", 60: "pdn", **_OWNER}),
}  # fmt: skip
ROWS_LIMIT = 1 << 16
"""Per table of a device. NCCL on 8 GPUs holds some thousands of MRs."""
SAMPLED_QPS = 256
"""As many QPs are read twice; a firmware command takes tens of microseconds."""
NOT_TOLD = (errno.EINVAL, errno.EOPNOTSUPP)


def read(emit: Emit, deadline: float, interval_s: float, every_pair: bool = True) -> None:
    """Emit a row for the system, one for each device with its tables, one for each thread, and one for
    each QP that moved. Raises OSError if the kernel has no such socket (EPROTONOSUPPORT)."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA) as sock:
        sock.bind((0, 0))
        emit_tables(Link(sock, deadline), emit, interval_s, every_pair=every_pair)


def emit_tables(
    link: Link, emit: Emit, interval_s: float, proc: str = "/proc", *, every_pair: bool = True
) -> None:
    """What `read` does, over an open link."""
    ticks = ticks_after_boot()
    for data in link.ask(_CLIENT | _SYS_GET, b"", dump=False):
        emit({"system": row(data, _NETNS_MODE)})
    devices = [row(data, _DEVICE) for data in link.ask(_CLIENT | _GET, b"", dump=True)]
    tids: "set[int]" = set()
    sampled: Dict[int, List[Dict[str, Any]]] = {}
    began = time.monotonic()
    for device in devices:
        index = device.get("index")
        if index is None:
            continue
        counts = _counts(link, index)
        many = counts.get("qp", 0) > SAMPLED_QPS and not every_pair
        tables: Dict[str, Dict[str, Any]] = {
            name: _table(link, index, table) for name, table in TABLES.items() if name != "qp" or not many
        }
        if many:
            tables["qp"] = {"rows": [], "error": "not asked: %d rows" % counts["qp"]}
        for table in tables.values():
            tids.update(one["pid"] for one in table["rows"] if "pid" in one)
        if 0 < len(tables["qp"]["rows"]) <= SAMPLED_QPS:
            sampled[index] = tables["qp"]["rows"]
        emit({"device": device, "counts": counts, "tables": tables})
    for tid in sorted(tids):
        try:
            owner = thread_group(tid, proc)
            if (start_of(tid, proc) or 0) >= ticks:
                owner = 0  # this thread is not the one in the tables
        except OSError as error:
            emit({"thread": tid, "process": 0, "why": error.strerror or str(error)})
            continue
        if owner != tid:
            emit({"thread": tid, "process": owner})
    _emit_moves(link, emit, sampled, began, interval_s)


def thread_group(tid: int, proc: str = "/proc") -> int:
    """The process of a thread, which is not listed in /proc but has a folder; 0 if it has ended. Raises
    OSError if that cannot be read.

    Source: proc_pid_status(5), Tgid; restrack keeps the thread that made the object (restrack.c,
    rdma_restrack_attach_task)."""
    try:
        with open("%s/%d/status" % (proc, tid), "rb") as stream:
            for line in stream.read(1 << 14).splitlines():
                if line.startswith(b"Tgid:"):
                    digits = line[5:].strip()
                    return int(digits) if digits.isdigit() and len(digits) < 11 else 0
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ESRCH):
            raise
    return 0


def _counts(link: Link, index: int) -> Dict[str, int]:
    """How many objects of each kind exist, those of the kernel and of other namespaces counted in."""
    found: Dict[str, int] = {}
    for data in link.ask(_CLIENT | _RES_GET, attribute(1, index), dump=False):
        for one in _rows(data, _SUMMARY, _SUMMARY_ROW):
            if "object_name" in one and "count" in one:
                found[one["object_name"]] = one["count"]
    return found


def _table(link: Link, index: int, table: Table) -> Dict[str, Any]:
    """{"rows": [...], "error": ""}; the error is the name of an errno, or what else made it incomplete."""
    found: List[Dict[str, Any]] = []
    error = ""
    try:
        for data in link.ask(_CLIENT | table.command, attribute(1, index), dump=True):
            if len(found) < ROWS_LIMIT:
                found += [one for one in _rows(data, table.nest, table.names) if "kernel_name" not in one]
            else:
                error = "more than %d rows" % ROWS_LIMIT
    except OSError as failed:
        if failed.errno not in NOT_TOLD:
            raise
        error = errno.errorcode.get(failed.errno, str(failed.errno))
    return {"rows": found[:ROWS_LIMIT], "error": error}


def _rows(data: bytes, nest: int, names: Mapping[int, str]) -> List[Dict[str, Any]]:
    """The entries in a nest of an answer. All entries have the number after that of their nest."""
    return [
        row(entry, names)
        for number, value in attributes(data)
        if number == nest
        for kind, entry in attributes(value)
        if kind == nest + 1
    ]


def _emit_moves(
    link: Link, emit: Emit, sampled: Mapping[int, List[Dict[str, Any]]], began: float, interval_s: float
) -> None:
    """Emit by how many packets each sampled QP went on, after the rest of the interval."""
    if not sampled:
        return
    time.sleep(max(0.0, began + interval_s - time.monotonic()))
    for index, before in sampled.items():
        seconds = time.monotonic() - began
        old = {one.get("lqpn"): one for one in before}
        for one in _table(link, index, TABLES["qp"])["rows"]:
            first = old.get(one.get("lqpn"))
            if first is None or first.get("rqpn") != one.get("rqpn"):
                continue
            sent, received = (_forward(first.get(key), one.get(key)) for key in ("sq_psn", "rq_psn"))
            emit({"qp": one.get("lqpn"), "index": index, "sent_packets": sent,
                  "received_packets": received, "seconds": round(seconds, 4)})  # fmt: skip


def _forward(before: Any, after: Any) -> int:
    """By how much a sequence number of 24 bits went on, if it did not go round more than once."""
    return (after - before) & 0xFFFFFF if isinstance(before, int) and isinstance(after, int) else 0
