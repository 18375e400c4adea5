"""`gdr fleet doctor --ray`: how long it takes to gather what 1,000 nodes answer.

    uv run --no-sync python -m benchmarks.ray_fleet [RESULTS] [AT_ONCE]

One raylet stands for all nodes: each result is a task that works for one second (it sleeps) and sends a
bundle of the machine generator. Ray runs in a network namespace of this program, with the loopback alone,
and is ended by process id. Its own start is reported apart: that of the cluster, and that of the job with
its worker processes, which ends with the first results. Of the others, AT_ONCE per second are the best that
there can be. Exit code 1 if they take 20 % longer. Needs root, and Ray where .ci/run installs it.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from machines.fleet import bundles, fleet

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.launcher import Request
from gdrkit.fleet.ray import Ray

RAY = Path.home() / ".cache/gdrkit/ray/bin/ray"
HOST = "127.0.0.1"
OVERHEAD_LIMIT = 0.2
DEADLINE_S = 900.0


class Many(Ray):
    """Many nodes in the place of the only one, each with one second of work."""

    def __init__(self, address: str, results: int, bundle: Path) -> None:
        super().__init__(address)
        (identity,) = self._list()[0].values()
        self._listed = {f"n{number}": identity for number in range(results)}, {}
        self._bundle = bundle

    def words(self, sudo: bool) -> list[str]:
        return ["sh", "-c", 'sleep 1; exec cat "$0"', str(self._bundle)]


def inside(results: int, at_once: int) -> int:
    """Measure within the namespace."""
    with tempfile.TemporaryDirectory(prefix="gdr-ray-", dir="/tmp") as folder:
        command = [
            RAY,
            "start",
            "--head",
            "--block",
            f"--node-ip-address={HOST}",
            f"--dashboard-host={HOST}",
        ]
        lean = ["--no-monitor", "--include-log-monitor=False", "--num-cpus=2", f"--temp-dir={folder}/ray"]
        environment = {
            **os.environ,
            "PATH": f"{RAY.parent}:{os.environ['PATH']}",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        begun = time.perf_counter()
        with Path(folder, "log").open("wb") as log:
            child = subprocess.Popen([*command, *lean], stdout=log, stderr=log, env=environment)
        (bundle,) = bundles(fleet(0, 1).machines, Path(folder))
        launcher = started(child, results, bundle)
        print(f"start of the cluster                 {time.perf_counter() - begun:7.1f} s")
        return gathered(launcher, at_once, Path(folder))


def started(child: subprocess.Popen[bytes], results: int, bundle: Path) -> Many:
    """The launcher, as soon as the cluster answers."""
    while child.poll() is None:
        with suppress(TargetError, ValueError):
            return Many(f"http://{HOST}:8265", results, bundle)
        time.sleep(0.2)
    raise SystemExit("Ray did not start")


def gathered(launcher: Many, at_once: int, folder: Path) -> int:
    """Gather the results, and print how long that took."""
    nodes = launcher.nodes()
    answers: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    paths = {node: str(folder / f"{node}.tar.gz") for node in nodes}
    begun = time.perf_counter()
    request = Request(paths, False, time.monotonic() + DEADLINE_S, at_once)
    job = launcher.ask(request, lambda node, error: answers.put(error))
    times, failed = [], 0
    for _ in nodes:
        failed += answers.get() is not None
        times.append(time.perf_counter() - begun)
    job.end()
    first, rest = times[at_once - 1], len(nodes) - at_once
    seconds, best = times[-1] - first, rest / at_once
    print(f"start of the job and its processes   {first:7.1f} s  until {at_once} results")
    print(f"{rest} more results of 1 s, {at_once} at once {seconds:7.1f} s  best possible {best:.1f} s")
    print(f"overhead                             {100 * (seconds / best - 1):7.0f} %  {failed} failed")
    print(f"load of the machine (cores: {os.cpu_count()})       {os.getloadavg()[0]:9.1f}")
    return int(failed > 0 or seconds > best * (1 + OVERHEAD_LIMIT))


def pids(space: str) -> Sequence[int]:
    listed = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False)
    return [int(word) for word in listed.stdout.split()]


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["inside"]:
        return inside(int(words[1]), int(words[2]))
    space = f"gdr-bench-{os.getpid()}"
    numbers = [*words, *("1000", "16")[len(words) :]]
    subprocess.run(["ip", "netns", "add", space], check=True)
    try:
        subprocess.run(["ip", "-n", space, "link", "set", "lo", "up"], check=True)
        here = [sys.executable, "-m", "benchmarks.ray_fleet", "inside", *numbers]
        return subprocess.run(["ip", "netns", "exec", space, *here], check=False).returncode
    finally:
        while found := pids(space):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        subprocess.run(["ip", "netns", "del", space], check=False)


if __name__ == "__main__":
    sys.exit(main())
