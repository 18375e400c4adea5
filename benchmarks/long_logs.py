"""How long `gdr explain` takes on 5 MB of a log, against `grep -cE` of the same strings in the same run.

    uv run --no-sync python -m benchmarks.long_logs

Each log repeats a few kinds of lines with other numbers. `grep` looks for the strings that messages of the
catalogue have. CPU time of the whole processes, as a multiple of `python -c pass`: the best of some rounds.
Exit code 1 if a log takes more than LIMIT starts of Python.
"""

from __future__ import annotations

import random
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from gdrkit import catalogue

ROUNDS, LOG_BYTES, LIMIT = 3, 5_000_000, 50
KINDS = {
    "kernel": (
        "[    1.234567] pci 0000:3b:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint",
        "[    3.456789] audit: type=1400 audit(1719423.123:4567): apparmor=STATUS operation=profile_load",
        "[    4.567890] mlx5_core 0000:18:00.0: Port module event: module 0, Cable plugged",
        "[    6.789012] EXT4-fs (nvme0n1p2): mounted filesystem 12345678 with ordered data mode.",
        "[    9.012345] docker0: port 12(veth3456789) entered blocking state",
    ),
    "NCCL": (
        "node1:1000:2000 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
        "node1:1000:2000 [0] NCCL INFO AllReduce: opCount 1234 sendbuff 0x7f12345678 recvbuff 0x7f98765432",
    ),
    "application": (
        "2024-06-26 12:34:56,789 INFO trainer.py:123 step 12345 loss 2.34567 lr 0.00012345",
        "Epoch 123:  45%|####5     | 12345/67890 [12:34<56:78,  1.23it/s, loss=2.345]",
        "WARNING:torch.distributed.elastic: rank 12345 heartbeat late by 1234 ms",
    ),
}
"""Lines as these programs print them; the numbers are changed."""


def log(kinds: tuple[str, ...]) -> str:
    chance, lines, size = random.Random(1), [], 0
    while size < LOG_BYTES:
        process, mark, rest = kinds[len(lines) % len(kinds)].rpartition("NCCL INFO ")  # the same process
        line = process + mark + re.sub(r"\d", lambda _: str(chance.randrange(10)), rest)
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines) + "\n"


def cpu_seconds(command: list[str]) -> float:
    """CPU time of the fastest round."""
    rounds = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rounds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(rounds)


def main() -> int:
    start = cpu_seconds([sys.executable, "-c", "pass"])
    constants = sorted({re.escape(constant) for _, constant in catalogue.matcher().constants()})
    print(f"{'log':<12} {'explain s':>9} {'starts of Python':>17} {'grep s':>7} {'explain / grep':>15}")
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        for name, kinds in KINDS.items():
            file = Path(folder) / name
            file.write_text(log(kinds))
            took = cpu_seconds([sys.executable, "-m", "gdrkit", "explain", str(file)])
            grep = cpu_seconds(["grep", "-cE", "|".join(constants), str(file)])
            print(f"{name:<12} {took:9.2f} {took / start:17.0f} {grep:7.2f} {took / grep:15.1f}")
            kept = kept and took / start <= LIMIT
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
