"""The run time of `gdr topo` as a whole process, compared with `python3 -c pass`, in turns in one run.

    uv run --no-sync python -m benchmarks.topo

Uses a node with 8 GPUs from benchmarks/machines.py: as an unpacked bundle, and as NCCL's XML. On a live
machine the same files are read from sysfs; the driver is only called with --nvlink. Exit code 1 if a limit
is exceeded.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.machines import build
from benchmarks.start import GDR, once

ROUNDS = 25
LIMIT = 15.0
"""Multiples of the time of `python3 -c pass`: 150 ms if that takes 10."""


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree = str(build(folder, 8, 10))
        saved = folder / "topo.xml"
        subprocess.run(
            [GDR, "topo", tree, "--write-nccl-xml", str(saved)], check=True, stderr=subprocess.DEVNULL
        )
        commands = {
            "python3 -c pass": [sys.executable, "-c", "pass"],
            "gdr topo, 8 GPUs x 10 NICs": [GDR, "topo", tree],
            "gdr topo --json": [GDR, "topo", tree, "--json"],
            "gdr topo --env": [GDR, "topo", tree, "--env", "NCCL_NET_GDR_LEVEL=SYS"],
            "gdr topo of NCCL's XML": [GDR, "topo", str(saved)],
        }
        runs: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, argv in commands.items():
                runs[name].append(once(argv)[0])
    base = statistics.median(runs["python3 -c pass"])
    print(f"{'whole process':<34} {'ms':>8} {'ratio':>10} {'limit':>7}")
    kept = True
    for name, measured in runs.items():
        ms = statistics.median(measured)
        print(f"{name:<34} {ms:8.1f} {ms / base:9.1f}x {LIMIT:6}x")
        kept = kept and ms / base <= LIMIT
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
