"""What a fleet costs per node, what grows with their number, and what 100,000 nodes would take.

    uv run --no-sync python -m benchmarks.scale cost 100 1000
    uv run --no-sync python -m benchmarks.scale document 1000 10000 100000
    uv run --no-sync python -m benchmarks.scale incident 64

`cost`: bundles of the machine generator, half of them with 8 GPUs and 8 NICs, judged by one command: CPU
time of all its processes, which a busy machine changes less than the time on the clock. Then what 100,000
nodes would take, from the largest number. `document`: rows judged before, with other names; only the
document of a fleet is made of them. `incident`: four faults in one fleet. Exit code 1 if the time per node
grows by more than a limit, or a fault is not found where it was planted.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
from machines.compose import write
from machines.fleet import DRIVER, RACK, RAIL, STUB, incident
from msgspec.structs import replace

from benchmarks.fleet import GROWTH, judged, make
from gdrkit.fleet.build import build
from gdrkit.fleet.document import FleetReport, NodeRow
from gdrkit.fleet.hostlist import expand
from gdrkit.fleet.pool import cores, judge_all
from gdrkit.fleet.text import text
from gdrkit.fleet.worker import task_of

LARGEST = 100_000
CORES = (2, 16, 64)
ROWS = 40
"""Rows that are judged once, and repeated with other names."""
DAY_S = 86_400


def bundles(folder: str, count: int) -> None:
    with ProcessPoolExecutor(cores()) as pool:
        list(pool.map(partial(make, folder), range(count), chunksize=10))


def cost(sizes: list[int]) -> int:
    """Print the cost per node for each number of bundles, and what it means for many more."""
    print(f"{'nodes':>7} {'seconds':>8} {'CPU ms per node':>16} {'MB':>6} {'KB per bundle':>14}")
    each = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            bundles(folder, size)
            kilobytes = sum(path.stat().st_size for path in Path(folder).iterdir()) / size / 1000
            seconds, cpu_s, megabytes = judged(folder)
            each.append(cpu_s / size)
        print(
            f"{size:7} {seconds:8.1f} {1000 * each[-1]:16.1f} {megabytes:6.0f} {kilobytes:14.0f}", flush=True
        )
    hours = LARGEST * each[-1] / 3600
    print(f"\n{LARGEST:,} nodes, from the last line:")
    print(f"  bundles {LARGEST * kilobytes / 1e6:.0f} GB; judging {hours:.1f} hours of CPU time")
    for count in CORES:
        print(f"  on {count:2} such cores {60 * hours / count:6.0f} minutes")
    pairs = LARGEST * (LARGEST - 1) // 2
    print(f"  pairs of nodes {pairs:,}: at 1 s each and {LARGEST // 2:,} pairs at a time", end=" ")
    print(f"{pairs / (LARGEST // 2) / DAY_S:.1f} days")
    return int(each[-1] > GROWTH * each[0])


def document(sizes: list[int]) -> int:
    """Print what it takes to compare, group and write the rows of so many nodes."""
    rows: list[NodeRow] = []
    with tempfile.TemporaryDirectory() as folder:
        bundles(folder, ROWS)
        judge_all([task_of(str(path)) for path in sorted(Path(folder).iterdir())], rows.append)
    print(f"{'nodes':>7} {'build s':>8} {'us per node':>12} {'text s':>7} {'JSON MB':>8} {'peak MB':>8}")
    each = []
    for size in sizes:
        many = [replace(rows[n % ROWS], name=f"n{n:06}", target=f"n{n:06}") for n in range(size)]
        start = time.process_time()
        report = build(many)
        seconds = time.process_time() - start
        start = time.process_time()
        text(report, width=100)
        shown = time.process_time() - start
        megabytes = len(msgspec.json.encode(report)) / 1e6
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        each.append(seconds / size)
        print(
            f"{size:7} {seconds:8.2f} {1e6 * each[-1]:12.0f} {shown:7.2f} {megabytes:8.1f} {peak:8.0f}",
            flush=True,
        )
    return int(each[-1] > GROWTH * each[0])


def found(report: FleetReport) -> dict[str, set[str]]:
    """The nodes that a report names for each of the faults of an incident."""
    return {
        RAIL: {
            node for group in report.groups if "port-down" in group.causes for node in expand(group.nodes)
        },
        STUB: set(_having(report, lambda traits: any("peermem-stub" in value for value in traits.values()))),
        RACK: set(_having(report, lambda traits: not traits["ACS"].startswith("0 "))),
        DRIVER: {
            node
            for drift in report.drift
            if drift.trait == "driver"
            for value in drift.values[1:]
            for node in expand(value.nodes)
        },
    }


def _having(report, wanted) -> Iterator[str]:
    return (row.name for row in report.nodes if wanted(row.traits))


def faults(size: int) -> int:
    """Print the page of a fleet with four faults, and whether each is found."""
    drawn = incident(0, size)
    rows: list[NodeRow] = []
    with tempfile.TemporaryDirectory() as folder:
        judge_all([task_of(str(write(machine, Path(folder)))) for machine in drawn.machines], rows.append)
    report = build(rows)
    print(text(report, width=100))
    right = 0
    for fault, names in found(report).items():
        right += names == set(drawn.planted[fault])
        print(f"{fault}: planted on {len(drawn.planted[fault])}, found on {len(names)} of {size} nodes")
    return int(right < len(drawn.planted))


def main() -> int:
    what, *numbers = sys.argv[1:] or ["cost"]
    sizes = [int(word) for word in numbers]
    if what == "document":
        return document(sizes or [1000, 10_000, LARGEST])
    if what == "incident":
        return faults((sizes or [64])[0])
    return cost(sizes or [100, 1000])


if __name__ == "__main__":
    sys.exit(main())
