"""The exit code of a fleet."""

from __future__ import annotations

from gdrkit.fleet.document import UNDECIDED, FleetReport, Standing
from gdrkit.fleet.pair_document import FleetBench


def exit_code(report: FleetReport) -> int:
    """That of the worst node: 2 blocked, then 3 unknown or without an answer, then 1 with warnings or
    blocked after the next boot, else 0.

    No node at all, and a run that was interrupted, are unknown."""
    if Standing.BLOCKED in report.counts:
        return 2
    if not report.nodes or not report.complete or any(standing in report.counts for standing in UNDECIDED):
        return 3
    return 1 if any(one in report.counts for one in (Standing.NEXT_BOOT, Standing.WARNINGS)) else 0


def bench_exit_code(bench: FleetBench) -> int:
    """3 if a node or a pair gave no rate, or the run was interrupted, then 1 if one is slow, else 0."""
    if not bench.measured or not bench.complete or bench.failures or bench.unmeasured:
        return 3
    return 1 if bench.slow_nodes or bench.slow_pairs else 0
