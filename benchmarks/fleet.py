"""`gdr fleet doctor` on many bundles: time and memory per node, and whether the odd node is named first.

    uv run --no-sync python -m benchmarks.fleet cost 100 1000
    uv run --no-sync python -m benchmarks.fleet odd 100

`cost`: that many different bundles of the machine generator, half of them with 8 GPUs and 8 NICs, judged
by one command. Time per node must stay flat, and 10,000 nodes have 300 s on 2 cores and 1 GB. Memory is that
of the largest process, times the processes. `odd`: random fleets of 16 to 256 nodes with one planted fault
each. Exit code 1 if a limit is exceeded or an odd node is not the first that is named.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from machines.cases import case
from machines.compose import write
from machines.fleet import bundles, fleet
from machines.machine import Machine

from benchmarks.start import GDR
from gdrkit.fleet.build import build
from gdrkit.fleet.pool import cores, judge_all
from gdrkit.fleet.worker import task_of
from machines import draw

SECONDS_PER_NODE = 300 / 10_000
MEMORY_LIMIT_MB = 1000
GROWTH = 1.3
"""Most by which the time per node may grow from the first size to the last."""
SIZES = (16, 256)


def machine(number: int) -> Machine:
    """A machine of the generator: every second one is large, the others are cases with faults."""
    if number % 2:
        return case(1, number).machine
    source = random.Random(f"large {number}")
    while True:
        drawn = draw.machine(number, source, "rails")
        if len(drawn.gpus) == 8 and len(drawn.nics) >= 8:
            drawn.name = f"large{number}"
            return drawn


def make(folder: str, number: int) -> None:
    """Write the bundle with a number."""
    with tempfile.TemporaryDirectory() as work:
        (packed,) = bundles((machine(number),), Path(work))
        (Path(folder) / f"{number:05d}.tar.gz").write_bytes(packed.read_bytes())


def cost(sizes: list[int]) -> int:
    """Print a line for each number of bundles."""
    print(f"{'nodes':>7} {'seconds':>8} {'ms per node':>12} {'MB':>6}")
    each, kept = [], True
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            with ProcessPoolExecutor(cores()) as pool:
                list(pool.map(partial(make, folder), range(size), chunksize=10))
            seconds, megabytes = judged(folder)
        each.append(seconds / size)
        print(f"{size:7} {seconds:8.1f} {1000 * seconds / size:12.1f} {megabytes:6.0f}", flush=True)
        kept = kept and megabytes <= MEMORY_LIMIT_MB and (size < 1000 or each[-1] <= SECONDS_PER_NODE)
    return int(not kept or each[-1] > GROWTH * each[0])


def judged(folder: str) -> tuple[float, float]:
    """Seconds of `gdr fleet doctor` on a folder, and a bound of its memory in MB."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as state:
        subprocess.run(
            [GDR, "fleet", "doctor", folder, "--json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            env={**os.environ, "XDG_STATE_HOME": state},
        )  # fmt: skip
    seconds = time.perf_counter() - start
    largest_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return seconds, largest_kb * (1 + cores()) / 1000


def odd(count: int) -> int:
    """Print the fleets whose odd node is not named first."""
    missed = 0
    for seed in range(count):
        size = random.Random(seed).randint(*SIZES)
        drawn = fleet(seed, size)
        with tempfile.TemporaryDirectory() as folder:
            rows: list = []
            judge_all([task_of(str(write(m, Path(folder)))) for m in drawn.machines], rows.append)
        report = build(rows)
        first = report.odd[0].node if report.odd else "none"
        missed += first != drawn.planted
        if first != drawn.planted:
            print(f"fleet {seed}, {size} nodes: planted {drawn.planted} ({drawn.fault}), named {first}")
    print(f"the odd node is named first in {count - missed} of {count} fleets")
    return int(missed > 0)


def main() -> int:
    if sys.argv[1:2] == ["odd"]:
        return odd(int((sys.argv[2:] or ["100"])[0]))
    return cost([int(word) for word in sys.argv[2:]] or [100, 1000])


if __name__ == "__main__":
    sys.exit(main())
