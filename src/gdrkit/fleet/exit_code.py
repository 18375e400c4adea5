"""The exit code of a fleet."""

from __future__ import annotations

from gdrkit.fleet.document import UNDECIDED, FleetReport, Standing
from gdrkit.fleet.pair_document import FleetBench


def exit_code(report: FleetReport, max_blocked: int = 0) -> int:
    """That of the worst node: 2 blocked, then 3 unknown or without an answer, then 1 with warnings, else 0.

    Up to `max_blocked` blocked nodes do not count; a node without an answer always does. No node at all, and
    a run that was interrupted, are unknown."""
    if report.counts.get(Standing.BLOCKED, 0) > max_blocked:
        return 2
    if not report.nodes or not report.complete or any(standing in report.counts for standing in UNDECIDED):
        return 3
    return 1 if Standing.WARNINGS in report.counts else 0


def bench_exit_code(bench: FleetBench) -> int:
    """3 if a node or a pair gave no rate, or the run was interrupted, then 1 if one is slow, else 0."""
    if not bench.measured or not bench.complete or bench.failures or bench.unmeasured:
        return 3
    return 1 if bench.slow_nodes or bench.slow_pairs else 0
