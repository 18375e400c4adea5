"""`gdr fleet doctor` on many bundles: time and memory per node, and whether the odd node is named first.

    uv run --no-sync python -m benchmarks.fleet cost 100 1000
    uv run --no-sync python -m benchmarks.fleet odd 100
    uv run --no-sync python -m benchmarks.fleet ssh 100 3

`cost`: that many different bundles of the machine generator, half of them with 8 GPUs and 8 NICs, judged
by one command. Time per node must stay flat, and 10,000 nodes have 300 s on 2 cores and 1 GB. Memory is that
of the largest process, times the processes. `odd`: random fleets of 16 to 256 nodes with one planted fault
each. `ssh`: that many nodes, all of them this machine behind an sshd on loopback, are asked by plain
parallel ssh, which pipes the same collector into python3 and saves its output, and by gdr; they take turns.
Exit code 1 if a limit is exceeded or an odd node is not the first that is named.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

from machines.cases import case
from machines.compose import write
from machines.fleet import bundles, fleet
from machines.machine import Machine
from tests.fleet.ssh_daemon import server

from benchmarks.start import GDR
from gdrkit.evidence.ssh import collector_program, remote_command
from gdrkit.fleet.build import build
from gdrkit.fleet.document import SILENT
from gdrkit.fleet.pool import cores, judge_all
from gdrkit.fleet.processes import FANOUT
from gdrkit.fleet.worker import task_of
from machines import draw

SECONDS_PER_NODE = 300 / 10_000
MEMORY_LIMIT_MB = 1000
GROWTH = 1.3
"""Most by which the time per node may grow from the first size to the last."""
SIZES = (16, 256)
SSH_RATIO = 1.3


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
    print(f"{'nodes':>7} {'seconds':>8} {'ms per node':>12} {'CPU ms per node':>16} {'MB':>6}")
    each, kept = [], True
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            with ProcessPoolExecutor(cores()) as pool:
                list(pool.map(partial(make, folder), range(size), chunksize=10))
            seconds, cpu_s, megabytes = judged(folder)
        each.append(cpu_s / size)
        wall_ms, cpu_ms = 1000 * seconds / size, 1000 * cpu_s / size
        print(f"{size:7} {seconds:8.1f} {wall_ms:12.1f} {cpu_ms:16.1f} {megabytes:6.0f}", flush=True)
        kept = kept and megabytes <= MEMORY_LIMIT_MB and (size < 1000 or seconds / size <= SECONDS_PER_NODE)
    return int(not kept or each[-1] > GROWTH * each[0])


def judged(folder: str) -> tuple[float, float, float]:
    """Seconds of `gdr fleet doctor` on a folder, its CPU time, and a bound of its memory in MB."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as state:
        subprocess.run(
            [GDR, "fleet", "doctor", folder, "--json"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            env={**os.environ, "XDG_STATE_HOME": state},
        )  # fmt: skip
    seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu_s, used.ru_maxrss * (1 + cores()) / 1000


def over_ssh(nodes: int, rounds: int = 3) -> int:
    """Print the times of plain parallel ssh and of `gdr fleet doctor`, which take turns."""
    taken: dict[str, list[float]] = {"plain ssh": [], "gdr fleet doctor": []}
    with server() as running, tempfile.TemporaryDirectory() as folder:
        environment = {**running.environment, "XDG_STATE_HOME": folder}
        program = Path(folder, "collector.py")
        program.write_bytes(collector_program())
        names = [f"n{number}" for number in range(nodes)]
        one = f"ssh $0 {shlex.quote(remote_command())} <{program} >{folder}/$0.tar.gz"
        commands = {
            "plain ssh": ["xargs", f"-P{FANOUT}", "-n1", "sh", "-c", one],
            "gdr fleet doctor": [GDR, "fleet", "doctor", "--hosts", "-", "--json"],
        }
        for _ in range(rounds):
            for name, command in commands.items():
                start = time.perf_counter()
                ran = subprocess.run(
                    command,
                    input="\n".join(names),
                    text=True,
                    env=environment,
                    capture_output=True,
                    check=False,
                )
                taken[name].append(time.perf_counter() - start)
            silent = [name for name in names if not Path(folder, f"{name}.tar.gz").stat().st_size]
            silent += json.loads(ran.stdout)["counts"].keys() & set(SILENT)
            assert not silent, silent
    for name, seconds in taken.items():
        print(f"{name:17} {nodes} nodes, median of {rounds}: {median(seconds):6.1f} s")
    ratio = median(taken["gdr fleet doctor"]) / median(taken["plain ssh"])
    print(f"ratio {ratio:.2f}, limit {SSH_RATIO}")
    return int(ratio > SSH_RATIO)


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
    if sys.argv[1:2] == ["ssh"]:
        return over_ssh(*(int(word) for word in sys.argv[2:] or ["100"]))
    if sys.argv[1:2] == ["odd"]:
        return odd(int((sys.argv[2:] or ["100"])[0]))
    return cost([int(word) for word in sys.argv[2:]] or [100, 1000])


if __name__ == "__main__":
    sys.exit(main())
