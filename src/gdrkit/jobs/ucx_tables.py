"""The tables of UCX_PROTO_INFO in the logs of a job: the only lines in which UCX names the path of memory.

NIXL, Mooncake over UCX and MPI print no line of NCCL for what UCX moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.formats.ucx_proto import ProtoTable, read_tables
from gdrkit.jobs.job import LogPosition, UcxLeg, UcxLegs
from gdrkit.programs.ucx.proto_tables import MOST_ROWS, WORDS, UcxPath, findings, verdict
from gdrkit.report.terminal import Row

MOST_LINES = 20_000
"""Lines of tables that are kept: a process has some hundred."""
LINE_BYTES = 2048
MARK = b"cfg"
"""What the title of every table has: `inter-node cfg#0`, and `ep_cfg[0]` in 1.14."""


class TableLines(Struct):
    """Lines that may be of tables, by their positions in the tally."""

    lines: dict[int, str] = {}

    def feed(self, chunk: bytes, base: int) -> None:
        """Keep what may be of a table, which may begin in one chunk and end in another. `base`: where the
        chunk begins."""
        if MARK not in chunk and not (self.lines and (b"|" in chunk or b".." in chunk)):
            return
        for number, line in enumerate(chunk.split(b"\n")):
            if len(self.lines) >= MOST_LINES:
                return
            if b"|" in line or MARK in line or b".." in line:
                self.lines[base + number] = line[:LINE_BYTES].decode("utf-8", "replace").rstrip("\r")


def ucx_legs(kept: TableLines, where: Callable[[int], LogPosition]) -> UcxLegs | None:
    """What the tables show of GPU memory between nodes; None if there is no table."""
    positions = sorted(kept.lines)
    tables = read_tables("\n".join(kept.lines[position] for position in positions))
    found = verdict(tables)
    if found is None:
        return None
    located = tuple(_located(table, positions) for table in tables)
    return UcxLegs(
        direct=found.direct,
        claim=found.claim,
        legs=tuple(
            UcxLeg(
                title=one.title, path=one.path, words=WORDS[one.path], from_bytes=one.low,
                description=one.description, config=one.config, expected=one.expected, count=one.count,
                line=where(one.line),
            )
            for one in findings(located)[:MOST_ROWS]
        ),
    )  # fmt: skip


def ucx_steps(found: UcxLegs | None) -> Iterator[str]:
    """What to do where the tables show GPU memory that is copied; nothing else."""
    if found is None or found.direct is not False:
        return
    if any(leg.path in (UcxPath.MIXED, UcxPath.TCP) for leg in found.legs):
        yield "`env | grep UCX_` in the job shows whether UCX_TLS or UCX_NET_DEVICES leaves RDMA out"
    yield "on a host of the job, or in its pod: `gdr doctor --consumer ucx` names what blocks its paths"
    yield "`gdr explain LOG` ranks the causes by what else the log shows"


def ucx_rows(found: UcxLegs) -> Iterator[Row]:
    """The rows of a page about what the tables show."""
    yield 0, "head", "UCX's tables (UCX_PROTO_INFO)"
    style = {True: "active", False: "failed", None: "unknown"}[found.direct]
    yield 2, style, found.claim
    for leg in found.legs:
        since = f", from {leg.from_bytes:,} bytes" if leg.from_bytes else ""
        times = "" if leg.count is None else f", {leg.count:,} operations"
        yield 2, "", f"{leg.title}{since}{times}: {leg.words}"
        yield 6, "quote", f"{leg.line}: {leg.description}, {leg.config}"
    yield 0, "", ""


def _located(table: ProtoTable, positions: list[int]) -> ProtoTable:
    """A table with positions in place of the numbers of the lines that were kept."""
    rows = tuple(replace(row, line=positions[row.line - 1]) for row in table.rows)
    return replace(table, line=positions[table.line - 1], rows=rows)
