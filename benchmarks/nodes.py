"""The cost of a node: CPU time in one process, and a whole `gdr doctor` compared with `python3 -c pass`.

    uv run --no-sync python -m benchmarks.nodes

benchmarks/machines.py builds the nodes. CPU is the process time of a new host and node, from opening the
target to the JSON, without imports. Whole processes run in turns. Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from benchmarks.machines import build
from benchmarks.start import GDR, once
from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host

ROUNDS = 15
WALL_LIMIT_MS = 500
REPORT_LIMIT_BYTES = 60_000
CPU_LIMITS_MS = {"2 GPUs x 2 NICs": 25, "8 GPUs x 10 NICs": 60, "8 GPUs x 12 NICs": 60}


def cpu_ms(target: str) -> tuple[float, int]:
    """Median process time of one diagnosis in ms, and the size of its report in bytes."""
    times, size = [], 0
    for _ in range(ROUNDS + 1):
        start = time.process_time()
        size = len(msgspec.json.encode(diagnose(open_host(target))))
        times.append((time.process_time() - start) * 1000)
    return statistics.median(times[1:]), size


def in_one_process(folder: Path) -> bool:
    """Print a line for each unpacked bundle; returns whether all keep their limits."""
    kept = True
    print(f"{'unpacked bundle':<34} {'CPU ms':>8} {'limit':>7} {'report KB':>10}")
    for name, limit in CPU_LIMITS_MS.items():
        gpus, nics = (int(word) for word in name.split() if word.isdigit())
        spent, size = cpu_ms(str(build(folder, gpus, nics)))
        print(f"{name:<34} {spent:8.1f} {limit:7} {size / 1000:10.1f}")
        kept = kept and spent <= limit and size <= REPORT_LIMIT_BYTES
    return kept


def as_processes(folder: Path) -> bool:
    """Print a line for each module compression of an 8-GPU tree; returns whether all keep the limit."""
    commands = {"python3 -c pass": [sys.executable, "-c", "pass"]}
    for packing in ("zst", "xz"):
        tree = build(folder, 8, 12, packing)
        commands[f"tree of 8 x 12, .ko.{packing}"] = [GDR, "doctor", str(tree), "--json"]
    runs: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, argv in commands.items():
            runs[name].append(once(argv)[0])
    base = statistics.median(runs["python3 -c pass"])
    print(f"\n{'whole process':<34} {'ms':>8} {'limit':>7} {'ratio':>10}")
    kept = True
    for name, measured in runs.items():
        ms = statistics.median(measured)
        print(f"{name:<34} {ms:8.1f} {WALL_LIMIT_MS:7} {ms / base:9.1f}x")
        kept = kept and ms <= WALL_LIMIT_MS
    return kept


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return int(not all([in_one_process(folder), as_processes(folder)]))


if __name__ == "__main__":
    sys.exit(main())
