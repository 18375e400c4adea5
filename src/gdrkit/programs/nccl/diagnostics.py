"""What a report of NCCL's diagnostics shows, and what it leaves open: one computation for every command.

NCCL compares ranks with one another, never with what the hardware can do, so [OK] does not prove GPUDirect
RDMA, and [INFO] is not a fault by itself. Sources: those of diagnostic_records.py, and the meaning of each
check in src/ras/diagnostics_{gpu,env,pci,xid,paths}.cc and src/diagnostics/ib_write_bw.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdrkit.programs.nccl.diagnostic_environment import environment
from gdrkit.programs.nccl.diagnostic_network import bandwidths, network, tested_memory
from gdrkit.programs.nccl.diagnostic_node_checks import gpus_of, node_checks
from gdrkit.programs.nccl.diagnostic_records import (
    DiagnosticEnd,
    DiagnosticHeader,
    DiagnosticLine,
    DiagnosticsSkipped,
)
from gdrkit.programs.nccl.diagnostic_statements import (
    Bandwidth,
    CheckLine,
    Diagnostics,
    Effect,
    HostNames,
    Statement,
)
from gdrkit.programs.nccl.log import LocatedRecord
from gdrkit.programs.nccl.log_records import FusedDevice, NcclRecord

MOST_LINES = 4096
"""Lines of checks that are read: a report has one for each check, value, outlier and failed pair."""


def diagnostics(
    records: Iterable[LocatedRecord[NcclRecord]], ranks_of_hosts: Mapping[tuple[str, int], str] | None = None
) -> Diagnostics | None:
    """What the reports in a log show; None if it has none. `ranks_of_hosts`: hosts by communicator and rank,
    as other lines of the log show them."""
    seen = _Seen()
    for one in records:
        seen.add(one)
    lines, ends = seen.lines, seen.ends
    if not (lines or seen.headers or ends or seen.skipped):
        return None
    names = HostNames(lines, tuple(seen.hosts), dict(ranks_of_hosts or {}))
    gpus = gpus_of(lines)
    rates = bandwidths(lines)
    complete = any(not end.passive for end in ends)
    found = (
        *(_skipped(line) for line in seen.skipped[:1]),
        *(_without_lines(line) for line in seen.frames[:1] if not lines),
        *network(lines, rates, complete=complete, ports=frozenset(seen.ports)),
        *environment(lines),
        *node_checks(lines, names, gpus),
    )
    unanswered = {one.line for one in found if one.effect is Effect.OPEN}
    return Diagnostics(
        active=any(not passive for passive, _ in seen.headers)
        or any(line.record.check in ("net bw", "p2p") for line in lines),
        passive=any(passive for passive, _ in seen.headers) or any(end.passive for end in ends),
        ranks=_most(end.count for end in ends if not end.peers) or _most(rate.ranks for rate in rates),
        processes=_most(end.count for end in ends if end.peers),
        hosts=names.hosts,
        host_count=names.count,
        gpus=gpus.words,
        tested=any(line.line not in unanswered for line in lines),
        bandwidths=rates,
        tested_memory=tested_memory(lines),
        statements=_in_order(found),
        direct_path=_direct_path(lines, rates),
    )


class _Seen:
    """The records of reports in a log, by kind."""

    def __init__(self) -> None:
        self.lines: list[CheckLine] = []
        self.headers: list[tuple[bool, int]] = []  # whether of RAS, and the line
        self.ends: list[DiagnosticEnd] = []
        self.frames: list[int] = []  # lines of headers and ends: an excerpt may have an end alone
        self.skipped: list[int] = []
        self.hosts: dict[str, None] = {}
        self.ports: set[float] = set()  # speeds in Gbit/s

    def add(self, one: LocatedRecord[NcclRecord]) -> None:
        match one.record:
            case DiagnosticLine() as record if len(self.lines) < MOST_LINES:
                self.lines.append(CheckLine(record, one.line, one.process))
            case DiagnosticHeader(passive):
                self.headers.append((passive, one.line))
                self.frames.append(one.line)
            case DiagnosticEnd() as record:
                self.ends.append(record)
                self.frames.append(one.line)
            case DiagnosticsSkipped():
                self.skipped.append(one.line)
            case FusedDevice(mbit_per_s=speed, parts=1):  # ib_write_bw takes one port of merged NICs
                if speed:
                    self.ports.add(speed / 1000)
                return
            case _:
                return
        if host := one.process.rpartition(":")[0]:
            self.hosts.setdefault(host)


def _skipped(line: int) -> Statement:
    """That RAS is off, so that it compares nothing: src/ras/ras.cc prints the line in place of a report."""
    return Statement(
        effect=Effect.OPEN, check="RAS", line=line, brief="NCCL_RAS_ENABLE=0 turns RAS off",
        text="not run: NCCL_RAS_ENABLE=0 turns RAS off, and with it the comparison of ranks",
        todo="unset NCCL_RAS_ENABLE on all ranks and start the job again; NCCL_RUN_DIAGNOSTICS=1 on all "
        "ranks tests transfers, and does not need RAS",
    )  # fmt: skip


def _without_lines(line: int) -> Statement:
    """That a report has its header or its end, and no check. The passive one follows asynchronously, in the
    thread of RAS: src/ras/diagnostics.cc."""
    return Statement(
        effect=Effect.OPEN, check="report", line=line, brief="the log has no line of a check",
        text="a report begins or ends, and the log has no line of a check: the job ended before it, or the "
        "log lacks what the processes printed to stdout",
        todo="keep what all ranks print to stdout, and let the job run on after it has made its "
        "communicators",
    )  # fmt: skip


def _most(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count), default=None)


def _in_order(found: Iterable[Statement]) -> tuple[Statement, ...]:
    """Statements, causes first; the same one of several communicators once."""
    once = {(one.effect, one.check, one.text): one for one in reversed(tuple(found))}
    return tuple(sorted(once.values(), key=_place))


def _place(one: Statement) -> tuple[int, bool, bool, int]:
    return tuple(Effect).index(one.effect), not one.blocks, not one.codes, one.line


def _direct_path(lines: list[CheckLine], rates: tuple[Bandwidth, ...]) -> str:
    """Why the report does not show whether GPU memory goes to the network directly."""
    memory = tested_memory(lines)
    if not lines:
        return "nothing was tested"
    if rates and not memory:
        return (
            "no line names the memory that ib_write_bw used, and host memory gives the same line: "
            "`ib_write_bw --help | grep use_cuda` in the job's container shows whether it can use GPU memory"
        )
    if rates and memory == ("host",):
        return "ib_write_bw used host memory where a line names it: no GPU memory was tested"
    if rates and "host" not in memory:
        return (
            f"ib_write_bw used {' and '.join(memory)} memory for the pairs whose lines name it, and likely "
            "for the others; NCCL registers its own memory"
        )
    if rates:
        return f"ib_write_bw used {', '.join(memory)} memory, depending on the pair"
    if memory:
        return "no pair was measured; NCCL registers its own memory, and may use it all the same"
    return "no check of the report reads dma-buf, nvidia-peermem, BAR1 or NCCL's decision"
