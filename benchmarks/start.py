"""The run time of `gdr` as a new process, compared with `python3 -c pass`, in turns in one run. Reports
ratios.

    uv run --no-sync python benchmarks/start.py [TARGET]

Measures dist/gdr.pyz too, if tools/pyz.py has built it.
Runs the installed script with compiled bytecode. All commands run equally often, in turns, so that other
load affects all of them. Peak memory is that of the child, from wait4(2). Exit code 1 if a limit is
exceeded without a TARGET.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

ROUNDS = 25
LIMITS = {"gdr doctor --json": 8.5, "gdr doctor --line": 8.5, "gdr doctor": 9}
"""Multiples of the time of `python3 -c pass`."""
MEMORY_LIMIT_MB = 50
PYZ = Path(__file__).parent.parent / "dist" / "gdr.pyz"
PYZ_LIMIT = 2.0
"""Multiples of the time of the installed command, for the one file of tools/pyz.py from its second start."""
GDR = str(Path(sys.executable).parent / "gdr")


def once(argv: list[str]) -> tuple[float, int]:
    """Wall time in ms and peak resident memory in KiB of one run."""
    silent = os.open(os.devnull, os.O_WRONLY)
    start = time.perf_counter()
    child = os.posix_spawn(
        argv[0], argv, {**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        file_actions=[(os.POSIX_SPAWN_DUP2, silent, 1), (os.POSIX_SPAWN_DUP2, silent, 2)],
    )  # fmt: skip
    _, _, usage = os.wait4(child, 0)
    elapsed = (time.perf_counter() - start) * 1000
    os.close(silent)
    return elapsed, usage.ru_maxrss


def main() -> int:
    target = sys.argv[1:2]
    commands = {
        "python3 -c pass": [sys.executable, "-c", "pass"],
        "import msgspec": [sys.executable, "-c", "import msgspec"],  # the records of all evidence are its
        "gdr --help": [GDR, "--help"],
        "gdr doctor --json": [GDR, "doctor", *target, "--json"],
        "gdr doctor --line": [GDR, "doctor", *target, "--line"],
        "gdr doctor": [GDR, "doctor", *target],
    }
    if PYZ.exists():
        commands["gdr.pyz doctor --json"] = [str(PYZ), "doctor", *target, "--json"]
    runs: dict[str, list[tuple[float, int]]] = {name: [] for name in commands}
    for argv in commands.values():
        once(argv)  # compiles missing bytecode
    for _ in range(ROUNDS):
        for name, argv in commands.items():
            runs[name].append(once(argv))
    base = statistics.median(ms for ms, _ in runs["python3 -c pass"])
    print(f"{'median of ' + str(ROUNDS):<22} {'ms':>8} {'ratio':>7} {'limit':>7} {'peak MB':>8}")
    kept = True
    for name, measured in runs.items():
        ms = statistics.median(ms for ms, _ in measured)
        peak = max(kib for _, kib in measured) / 1024
        limit = LIMITS.get(name)
        print(f"{name:<22} {ms:8.1f} {ms / base:6.1f}x {f'{limit:.1f}x' if limit else '':>7} {peak:8.1f}")
        kept = kept and (limit is None or (ms / base <= limit and peak < MEMORY_LIMIT_MB))
    if PYZ.exists():
        pyz, installed = (
            statistics.median(ms for ms, _ in runs[f"{name} doctor --json"]) for name in ("gdr.pyz", "gdr")
        )
        print(f"gdr.pyz: {pyz / installed:.2f} times the installed command (limit {PYZ_LIMIT})")
        kept = kept and pyz / installed <= PYZ_LIMIT
    return int(not (kept or target))


if __name__ == "__main__":
    sys.exit(main())
