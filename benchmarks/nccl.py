"""`gdr nccl` on a log of 1 GB of 1,024 ranks, compared with `grep -cE` for the same kinds of lines, in
turns.

    uv run --no-sync python -m benchmarks.nccl [MB]

Two logs are written to a temporary folder (benchmarks/nccl_logs.py) and removed again: one with
NCCL_DEBUG=INFO alone, in which nearly every line is a channel, and one with
NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH. grep runs in the C locale, where it is fastest, and writes to a file:
with /dev/null it would stop at the first match. Memory is the sampled anonymous memory of our two
processes together; the page cache of the file does not count. Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.nccl_logs import write
from benchmarks.start import GDR

ROUNDS = 5
LIMIT, MEMORY_LIMIT_MB = 4.0, 300
RANKS = 1024
FAMILIES = (
    " via (NET|COLLNET|P2P|SHM|direct)|NCCL WARN|set by environment to|Using network|NET/IB : "
    "|GPU Direct RDMA|DMA-BUF is available|Connected all rings|Init (START|COMPLETE)|NCCL version"
    "|Data Direct|plugin"
)


def timed(argv: list[str], output: Path) -> tuple[float, float]:
    """Wall and CPU time of one run in ms, of all its processes."""
    before, start = os.times(), time.perf_counter()
    with output.open("wb") as out:
        subprocess.run(argv, stdout=out, check=False)
    wall, after = time.perf_counter() - start, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall * 1000, spent * 1000


def peak_mb(argv: list[str]) -> float:
    """The peak of the anonymous memory of a command and its child together, sampled every 10 ms."""
    silent = os.open(os.devnull, os.O_WRONLY)
    child = os.posix_spawn(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, silent, 1)])
    peak = 0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        peak = max(peak, sum(map(_anonymous_kib, _family(child))))
        time.sleep(0.01)
    os.close(silent)
    return peak / 1024


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return [pid]
    return [pid, *map(int, children.split())]


def _anonymous_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)


def compare(name: str, path: Path) -> bool:
    """Print a line; returns whether the limits are kept."""
    output = path.with_suffix(".out")
    commands = {
        "grep": [shutil.which("grep") or "grep", "-cE", FAMILIES, str(path)],
        "gdr": [GDR, "nccl", "--json", str(path)],
    }
    runs: dict[str, list[tuple[float, float]]] = {which: [] for which in commands}
    for _ in range(ROUNDS):
        for which, argv in commands.items():
            runs[which].append(timed(argv, output))
    (grep, grep_cpu), (ours, ours_cpu) = (
        [statistics.median(run[i] for run in runs[which]) for i in (0, 1)] for which in commands
    )
    peak, size = peak_mb(commands["gdr"]), path.stat().st_size / 1e6
    print(
        f"{name:<20} {size:5.0f} MB  grep {grep:6.0f} ms  gdr {ours:6.0f} ms  {ours / grep:4.2f}x "
        f"(limit {LIMIT:.0f}x)  CPU {grep_cpu:.0f} and {ours_cpu:.0f} ms  "
        f"peak {peak:3.0f} MB (limit {MEMORY_LIMIT_MB})"
    )
    return ours / grep <= LIMIT and peak < MEMORY_LIMIT_MB


def main() -> int:
    size = int(sys.argv[1]) if sys.argv[1:] else 1000
    kept = True
    os.environ["LC_ALL"] = "C"
    with tempfile.TemporaryDirectory() as folder:
        for name, plain in (("INFO alone", True), ("INIT,ENV,NET,GRAPH", False)):
            path = Path(folder) / "job.log"
            with path.open("wb") as out:
                write(out, RANKS, size * 1_000_000, plain=plain)
            kept = compare(name, path) and kept
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
