"""The run time of `gdr topo` as a whole process, compared with `python3 -c pass`, in turns in one run.

    uv run --no-sync python -m benchmarks.topo

Uses a node with 8 GPUs from benchmarks/machines.py: as an unpacked bundle, and as NCCL's XML. On a live
machine the same files are read from sysfs; the driver is only called with --nvlink. Two more are made up: a
node with 16 ports, and 256 GPUs with 256 NICs below one host bridge, the most that is accepted. Exit code 1
if a limit is exceeded.
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
LARGEST, ROUNDS_OF_LARGEST = "256 x 256", 3
LIMIT = 15.0
"""Multiples of the time of `python3 -c pass`: 150 ms if that takes 10."""


FLAT_LIMIT = 800.0
"""Of the largest: 65,536 pairs, each judged both ways."""


def flat(gpus: int, nets: int) -> str:
    """NCCL's XML of GPUs and NICs below one host bridge."""
    link = 'link_speed="32.0 GT/s PCIe" link_width="16"'

    def device(at: int, kind: str, inside: str) -> str:
        return f'<pci busid="{at >> 8:04x}:{at & 255:02x}:00.0" class="{kind}" {link}>{inside}</pci>'

    rows = [
        device(at, "0x030200", f'<gpu dev="{at}" sm="90" rank="{at}" gdr="1"/>') for at in range(gpus)
    ] + [
        device(
            gpus + at,
            "0x020700",
            f'<nic><net name="mlx5_{at}" dev="{at}" speed="400000" port="1" gdr="1"/></nic>',
        )
        for at in range(nets)
    ]
    cpu = '<cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">'
    return f'<system version="1">{cpu}{"".join(rows)}</cpu></system>'


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
        for gpus, nets in ((8, 16), (256, 256)):
            made = folder / f"{gpus}.xml"
            made.write_text(flat(gpus, nets))
            commands[f"gdr topo, {gpus} x {nets}, flat"] = [GDR, "topo", str(made)]
        runs: dict[str, list[float]] = {name: [] for name in commands}
        for round_number in range(ROUNDS):
            for name, argv in commands.items():
                if LARGEST not in name or round_number < ROUNDS_OF_LARGEST:
                    runs[name].append(once(argv)[0])
    base = statistics.median(runs["python3 -c pass"])
    print(f"{'whole process':<34} {'ms':>8} {'ratio':>10} {'limit':>7}")
    kept = True
    for name, measured in runs.items():
        ms = statistics.median(measured)
        limit = FLAT_LIMIT if LARGEST in name else LIMIT
        print(f"{name:<34} {ms:8.1f} {ms / base:9.1f}x {limit:6}x")
        kept = kept and ms / base <= limit
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
