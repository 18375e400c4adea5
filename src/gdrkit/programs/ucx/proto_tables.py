"""What a table of UCX_PROTO_INFO shows of GPU memory's path to another node.

It is the only proof that UCX prints: of what it chose for an operation, a memory type and a size, and, with
counts, that it used it. Tables of host memory and of one node do not show it, and a row that is marked
`(?)` shows no more than what this side expects of the other one.

Source: openucx/ucx src/ucp/rndv/*.c, rma/*.c, tag/*, am/*, stream/* and src/ucp/proto/proto_debug.c, at the
tags from v1.14.1 to v1.22.0, which name the protocols.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from gdrkit.formats.regex import regex
from gdrkit.formats.ucx_proto import ProtoRow, ProtoTable

PAYLOAD_BYTES = 64 << 10
"""Smaller messages are copied on purpose, on every path: what is sent in them decides nothing (openucx/ucx
src/ucp/core/ucp_context.c, the thresholds of zero-copy)."""


class UcxPath(StrEnum):
    """The path of GPU memory, as a row shows it. From the best to the worst."""

    DIRECT = "direct"
    NVLINK = "nvlink"  # by cuda_ipc, past every NIC
    COPIED_IN_GPU = "copied-in-gpu"  # the NIC has GPU memory, into which the GPU copies
    HALF_DIRECT = "half-direct"  # direct on this side, copied on the other
    STAGED = "staged"
    MIXED = "mixed"
    TCP = "tcp"


WORDS = {
    UcxPath.DIRECT: "directly between GPU memory and the NIC",
    UcxPath.NVLINK: "over NVLink (cuda_ipc), past every NIC",
    UcxPath.COPIED_IN_GPU: "through a buffer in GPU memory, which the NIC accesses directly",
    UcxPath.HALF_DIRECT: "directly on this side, through a buffer of UCX on the other",
    UcxPath.STAGED: "copied through host memory, then over RDMA",
    UcxPath.MIXED: "in part over RDMA, in part over TCP",
    UcxPath.TCP: "copied through host memory, then over TCP",
}

NIC_DIRECT = (UcxPath.DIRECT, UcxPath.COPIED_IN_GPU)
"""Paths on which a NIC accesses GPU memory at both ends."""

_RDMA = regex(r"(?:rc|dc|ud|gga)_\w+|srd|ud")
_COPIES = regex(r"\b(?:copy-in|copy-out|short|emulation)\b")
_STAGING = r"(?:cuda_copy|gdr_copy|rocm_copy|ze_copy|cuda_ipc)"
_FRAGMENT = regex(rf"\b{_STAGING}\b(?:.*?, frag (?P<memory>\w+))?")
_BEFORE = regex(r"\(\?\) |rndv using |multi-frag |pipeline |rendezvous |eager |stream |sgl ")
_SHARE = regex(r"(?:[\d.]+% on )?(?P<transport>(?<![a-z0-9_])[a-z][a-z0-9_]*+)/(?P<device>[\w.:-]+)")


class UcxFinding(Struct, frozen=True, kw_only=True):
    """The path of payloads of GPU memory in one table."""

    line: int  # of the row
    title: str  # operation and memory
    path: UcxPath
    low: int  # bytes from which it holds
    description: str
    config: str
    expected: bool  # `(?)`: what this side expects of the other
    count: int | None  # operations; None: chosen, which does not show that bytes flowed


def findings(tables: Iterable[ProtoTable]) -> tuple[UcxFinding, ...]:
    """What tables show of GPU memory that goes to another node, for payloads. Where operations are counted,
    only what was used counts; what a side is certain of outranks what it expects of the other."""
    every = [found for table in tables if _is_about(table) for found in _of_table(table)]
    if any(found.count for found in every):
        every = [found for found in every if found.count]
    else:
        every = [found for found in every if found.count is None]
    certain = [found for found in every if not found.expected]
    return tuple(certain or every)


def _is_about(table: ProtoTable) -> bool:
    return table.reach in ("inter-node", "") and is_gpu(table.local)


def is_gpu(memory: str) -> bool:
    """Whether a title's memory is a GPU's: `cuda/GPU0`, `cuda memory`, `cuda-managed`; lists have `iov[N]`
    before it. Source: openucx/ucx src/ucs/memory/memory_type.c."""
    return re.match(r"(?:iov\[\d+\] )?(?:cuda|rocm|ze-device|ze-managed|gaudi)\b", memory) is not None


def _of_table(table: ProtoTable) -> Iterable[UcxFinding]:
    to = f" to {table.remote}" if table.remote else ""
    for row in table.rows:
        if row.high is not None and row.high < PAYLOAD_BYTES:
            continue
        path = path_of(table, row)
        if path is not None:
            yield UcxFinding(
                line=row.line,
                title=f"{table.operation} from {table.local}{to}",
                path=path,
                low=row.low,
                description=row.description,
                config=row.config,
                expected=row.description.startswith("(?)"),
                count=row.count,
            )


def path_of(table: ProtoTable, row: ProtoRow) -> UcxPath | None:
    """The path that a row describes, by its words and its transports. None: it moves nothing, or in words
    that are not known."""
    transports = {share["transport"] for share in _SHARE.finditer(row.config)}
    if "tcp" in transports:
        return UcxPath.TCP if len(transports) == 1 else UcxPath.MIXED
    if transports and transports <= {"cuda_ipc"}:
        return UcxPath.NVLINK
    if not transports or not all(_RDMA.fullmatch(one) for one in transports):
        return None
    words = _BEFORE.sub("", row.description)
    if _FRAGMENT.search(words):
        memory = {found["memory"] or "host" for found in _FRAGMENT.finditer(words)}
        return UcxPath.STAGED if "host" in memory else UcxPath.COPIED_IN_GPU
    if words.startswith("zero-copy"):
        return _zero_copy(table, words)
    if _COPIES.search(words) or words.startswith("fragmented"):
        return UcxPath.STAGED
    return None


def _zero_copy(table: ProtoTable, words: str) -> UcxPath:
    """Zero-copy is what this side does. The other side's memory is reached by put and get, and by a
    rendezvous that reads or writes it, unless that is a fragment in host memory; otherwise the bytes arrive
    as messages, which are copied out."""
    by_key = re.search(r"ucp_(?:put|get)", table.operation)
    reaches = by_key or re.search(r"(?:read from|write to) remote", words)
    staged_there = "frag" in table.attributes and table.remote.startswith("host")
    if reaches is None or staged_there or "copy-out" in words:
        return UcxPath.HALF_DIRECT
    return UcxPath.DIRECT


class UcxVerdict(Struct, frozen=True, kw_only=True):
    """What all tables together show of GPU memory that goes to other nodes."""

    direct: bool | None  # at both ends; None: they do not show it
    claim: str
    worst: UcxFinding | None = None
    decided_by: tuple[str, ...] = ()


CHOSEN = "chosen: without counts, a table does not show that bytes flowed"
MOST_ROWS = 8
"""Rows that are quoted: a program has a table for each operation, GPU and endpoint."""


def verdict(tables: Iterable[ProtoTable]) -> UcxVerdict | None:
    """The verdict on the tables in a text; None if it has none."""
    every = tuple(tables)
    if not every:
        return None
    found = findings(every)
    if not found:
        return UcxVerdict(direct=None, claim=f"inconclusive: {_why_open(every)}")
    order = list(UcxPath)
    worst = max(found, key=lambda one: order.index(one.path))
    counted = sum(one.count or 0 for one in found)
    kinds = sorted({one.path for one in found}, key=order.index)
    used = f" in {counted:,} operations" if counted else ""
    claim = f"UCX's path for GPU memory{used}: {'; '.join(WORDS[kind] for kind in kinds)}"
    claim += "" if counted else f" ({CHOSEN})"
    return UcxVerdict(
        direct=all(one.path in NIC_DIRECT for one in found) if UcxPath.NVLINK not in kinds else None,
        claim=f"{claim}, as this side expects of the other" if worst.expected else claim,
        worst=worst,
        decided_by=tuple(dict.fromkeys(map(_evidence, found)))[:MOST_ROWS],
    )


def _evidence(one: UcxFinding) -> str:
    since = f"from {one.low} bytes: " if one.low else ""
    times = f", {one.count} operations" if one.count else ""
    return f"line {one.line}: {one.title}: {since}{one.description}, {one.config}{times}"


def _why_open(tables: tuple[ProtoTable, ...]) -> str:
    """Why tables do not show the path of GPU memory between nodes."""
    about = [table for table in tables if is_gpu(table.local)]
    if not about:
        return (
            "no table is about GPU memory: it was not used yet, or UCX takes it for host memory, because "
            "UCX_TLS or the build lacks cuda"
        )
    if not any(_is_about(table) for table in about):
        return "the tables of GPU memory are about one node"
    size = PAYLOAD_BYTES >> 10
    return f"the tables of GPU memory have no row for {size} KiB and more in words that are known"
