"""`gdr doctor` on large nodes, compared with `python3 -c pass`, in turns in one run.

    uv run --no-sync python -m benchmarks.large

Made-up nodes with every device on its own bus: 8 GPUs with 16 NICs, the size of a node of a DGX SuperPOD;
16 x 32; and 64 x 64, the most pairs that `gdr doctor` accepts. 256 x 256 is refused, which must be quick.
*Per pair* is the time above that of an empty node. Exit code 1 if a limit is exceeded, or if four times as
many pairs take more than GROWTH times as long.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.machines import flat_tree
from benchmarks.start import GDR, once

ROUNDS = 7
SIZES = {(8, 16): 40.0, (16, 32): 100.0, (64, 64): 600.0, (256, 256): 40.0}
"""GPUs and NICs, and the limit as a multiple of the time of `python3 -c pass`."""
GROWTH = 8.0
"""For four times as many pairs: linear would be 4, quadratic 16."""


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        base, empty = [sys.executable, "-c", "pass"], str(flat_tree(Path(name) / "empty", 0, 0))
        commands = {"python3 -c pass": base, "doctor, no device": [GDR, "doctor", empty, "--json"]}
        for gpus, nics in SIZES:
            tree = flat_tree(Path(name) / f"{gpus}x{nics}", gpus, nics)
            commands[f"doctor, {gpus} x {nics}"] = [GDR, "doctor", str(tree), "--json"]
        runs: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, argv in commands.items():
                runs[name].append(once(argv)[0])
    times = {name: statistics.median(measured) for name, measured in runs.items()}
    one, nothing, kept, spent = times["python3 -c pass"], times["doctor, no device"], True, {}
    print(f"{'whole process':<22} {'ms':>8} {'ratio':>9} {'limit':>7} {'ms per pair':>12}")
    for name, ms in times.items():
        size = next((size for size in SIZES if name.endswith("{} x {}".format(*size))), (0, 0))
        limit, pairs = SIZES.get(size), size[0] * size[1]
        each = f"{(ms - nothing) / pairs:12.2f}" if 0 < pairs <= 64 * 64 else " " * 12
        bound = f"{limit:6.0f}x" if limit else " " * 7
        print(f"{name:<22} {ms:8.0f} {ms / one:8.1f}x {bound} {each}".rstrip())
        kept, spent[pairs] = kept and (limit is None or ms / one <= limit), ms - nothing
    growth = spent[16 * 32] / spent[8 * 16]
    print(f"four times as many pairs, 16 x 32 after 8 x 16: {growth:.1f} times as long (limit {GROWTH:.0f})")
    return int(not (kept and growth <= GROWTH))


if __name__ == "__main__":
    sys.exit(main())
