"""Whether `gdr ps` tells which path jobs take, on two NVIDIA GPUs where each job is known.

    sudo python -m benchmarks.jobs [--looks N] [--seconds N] [--only A,B] [--evidence FILE]

Jobs of two processes: NCCL through PyTorch over NVLink, through host memory and over sockets, and gdrkit's
own transport on each path; then those that move nothing to another process: computing on one GPU, loading
data into one, and an idle NCCL job. While each runs, `gdr ps --json` looks N times. A look is right if it
has all processes of the job and says of each what is true. What NVML lists is compared with nvidia-smi, and
NCCL's RAS is asked once about each of its jobs. `--evidence` keeps what the node showed. Exit code 1 if a
look was wrong. NVLink multicast stays off.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

SIZE = 64 << 20
AT_ONCE = 5
"""Looks side by side: each is a process of its own."""
START_S = 40.0
QUIET = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
NOT_TO_OTHERS = frozenset({"none", "unknown"})


class Job(NamedTuple):
    """What the processes do, with which environment, and the paths that are right to say."""

    work: str
    paths: frozenset[str]
    environment: tuple[tuple[str, str], ...] = ()
    processes: int = 2


def _only(path: str) -> frozenset[str]:
    return frozenset({path})


HOST = ("NCCL_P2P_DISABLE", "1")
JOBS = {
    "NCCL NVLink": Job("reduce", _only("nvlink")),
    "NCCL expandable": Job(
        "reduce", _only("nvlink"), (("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),)
    ),
    "NCCL host memory": Job("reduce", _only("staged"), (HOST,)),
    "NCCL host /dev/shm": Job("reduce", _only("staged"), (HOST, ("NCCL_CUMEM_HOST_ENABLE", "0"))),
    "NCCL sockets": Job(
        "reduce", _only("socket"), (HOST, ("NCCL_SHM_DISABLE", "1"), ("NCCL_NET", "Socket"))
    ),
    "gdrkit peer": Job("peer", _only("nvlink")),
    "gdrkit shared": Job("shared", _only("staged")),
    "gdrkit tcp": Job("tcp", _only("socket")),
    "NCCL idle": Job("idle", NOT_TO_OTHERS),
    "one GPU computes": Job("compute", NOT_TO_OTHERS, processes=1),
    "one GPU loads data": Job("load", NOT_TO_OTHERS, processes=1),
}
OWN = ("peer", "shared", "tcp")


# -- the processes of a job ------------------------------------------------------------------------


def run(work: str, rank: int) -> None:
    """Wait for a port and a key on standard input, then work until killed. Prints `ready` once it moves."""
    if work in OWN:
        _transport(work, rank)
    else:
        _torch(work, rank)


def _torch(work: str, rank: int) -> None:
    import torch  # type: ignore[import-not-found, unused-ignore]
    import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

    port = int(sys.stdin.readline().split()[0])
    torch.cuda.set_device(rank)
    tensor = torch.ones(SIZE, dtype=torch.uint8, device="cuda")
    if work in ("reduce", "idle"):
        dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
        dist.all_reduce(tensor)
    host = torch.ones(SIZE, dtype=torch.uint8).pin_memory() if work == "load" else None
    torch.cuda.synchronize()
    print("ready", flush=True)
    while True:
        if work == "reduce":
            dist.all_reduce(tensor)
        elif work == "compute":
            tensor.add_(1)
        elif work == "load":
            tensor.copy_(host)
        else:
            time.sleep(0.1)
        torch.cuda.synchronize()


def _transport(path: str, rank: int) -> None:
    from gdrkit.transport import connect, listen
    from gdrkit.transport.measure.sweep import SweepMemory

    port, key = sys.stdin.readline().split()
    common: dict[str, Any] = {"key": bytes.fromhex(key), "gpu": rank, "paths": (path,)}
    if rank == 0:
        with listen("127.0.0.1", int(port), **common) as listener:
            print("listens", flush=True)
            connection = listener.accept(START_S)
    else:
        connection = connect("127.0.0.1", int(port), **common, timeout=START_S)
    what = SweepMemory(rank).take(SIZE)
    connection.register(what)
    move = connection.send if rank == 0 else connection.recv
    move(what, stream=None).wait(START_S)
    print("ready", flush=True)
    while True:
        move(what, stream=None).wait(START_S)


class Running:
    """The processes of a job. They import what they need at once, and start to work with `go`."""

    def __init__(self, job: Job) -> None:
        words = [sys.executable, "-m", "benchmarks.jobs", "--run", job.work]
        environment = {**os.environ, **QUIET, **dict(job.environment)}
        self.job = job
        self.errors = os.memfd_create("errors")
        self.children = [
            subprocess.Popen(
                [*words, str(rank)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self.errors, text=True,
            )
            for rank in range(job.processes)
        ]  # fmt: skip

    @property
    def pids(self) -> set[int]:
        return {child.pid for child in self.children}

    def go(self) -> None:
        """Start to work, and wait until all do. Raises OSError if one ends before, or takes too long."""
        late = threading.Timer(START_S, self._kill)
        late.start()
        try:
            self._start()
        finally:
            late.cancel()

    def _start(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        line = f"{port} {os.urandom(32).hex()}\n"
        for child in self.children:
            assert child.stdin and child.stdout
            child.stdin.write(line)
            child.stdin.flush()
            if self.job.work in OWN and child is self.children[0]:
                self._expect(child, "listens")
        for child in self.children:
            self._expect(child, "ready")

    def _expect(self, child: subprocess.Popen[str], word: str) -> None:
        assert child.stdout
        for line in child.stdout:
            if line.strip() == word:
                return
        lines = os.pread(self.errors, 1 << 20, 0).decode("utf-8", "replace").splitlines() or [""]
        raise OSError(f"a process ended with {child.wait(10)}: {lines[-1][:300]}")

    def _kill(self) -> None:
        for child in self.children:
            child.kill()

    def end(self) -> None:
        self._kill()
        for child in self.children:
            child.communicate()


# -- looking at them -------------------------------------------------------------------------------


def gdr(*words: str) -> str:
    """What gdr prints; its exit codes up to 3 are answers. Raises OSError for others."""
    done = subprocess.run(
        [sys.executable, "-m", "gdrkit", *words], capture_output=True, text=True, timeout=60
    )
    if done.returncode > 3:
        raise OSError(f"gdr {words[0]} ended with {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def answers(pids: set[int]) -> dict[int, dict[str, Any]]:
    """The verdict of `gdr ps --json` on each of the processes."""
    found = json.loads(gdr("ps", "--json"))
    return {one["pid"]: one for one in found["processes"] if one["pid"] in pids}


def is_right(found: dict[int, dict[str, Any]], job: Job) -> bool:
    return len(found) == job.processes and all(one["verdict"]["path"] in job.paths for one in found.values())


def by_nvidia_smi() -> set[tuple[int, str, int]]:
    """Process, GPU and MiB of each process that computes, as nvidia-smi lists them."""
    fields = "--query-compute-apps=pid,gpu_bus_id,used_memory"
    rows = _output("nvidia-smi", fields, "--format=csv,noheader,nounits").splitlines()
    parts = [[part.strip() for part in row.split(",")] for row in rows if row.count(",") == 2]
    return {(int(pid), bus.lower()[-12:], int(size)) for pid, bus, size in parts}


def by_gdr(found: dict[int, dict[str, Any]]) -> set[tuple[int, str, int]]:
    """The same from the document of gdr."""
    return {
        (pid, gpu["address"][-12:], (gpu["memory_bytes"] or 0) >> 20)
        for pid, one in found.items()
        for gpu in one["gpus"]
    }


def shown_by_node(pids: set[int], whole: bool) -> dict[str, Any]:
    """What decides may be found in: records, open files and shared mappings, and NVIDIA's own tools."""
    record = {"record": json.loads(gdr("ps", "--record"))}
    if not whole:
        return record
    return {
        **record,
        "text": gdr("ps", "-v"),
        "maps": {pid: _shared_lines(pid) for pid in pids},
        "files": {pid: _files(pid) for pid in pids},
        "smi": _output("nvidia-smi"),
        "dmon": _output("nvidia-smi", "dmon", "-s", "t", "-c", "1"),
        "nvlink": _output("nvidia-smi", "nvlink", "-gt", "d"),
    }


def _shared_lines(pid: int) -> list[str]:
    """The mappings that a process shares or that belong to no file and cannot be read: of a GPU."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if re.match(r"\S+ (...s|---p .* 0 *$)", line)][:400]


def _files(pid: int) -> dict[str, int]:
    """How often each file is open."""
    found: dict[str, int] = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = re.sub(r"\[\d+\]", "", str(link.readlink()))
            found[target] = found.get(target, 0) + 1
    return found


def _output(*words: str) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def looked_at(name: str, running: Running, looks: int, kept: dict[str, Any], whole: bool) -> int:
    """Print how many looks at a job were right, and what a wrong one said; returns how many were wrong."""
    running.go()
    time.sleep(0.5)
    right, wrong = 0, ""
    with ThreadPoolExecutor(AT_ONCE) as several:
        seen = list(several.map(lambda _: answers(running.pids), range(looks)))
    for found in seen:
        if is_right(found, running.job):
            right += 1
        else:
            paths = [f"{one['verdict']['path']}: {one['verdict']['because']}" for one in found.values()]
            wrong = "; ".join(paths) or "no process"
    listed = {row for row in by_nvidia_smi() if row[0] in running.pids}
    same = len(listed & by_gdr(found))
    said = {f"{one['verdict']['path']}, {one['verdict']['confidence']}" for one in found.values()}
    print(f"{name:<20}{right:>3} of {looks} right  NVML {same} of {len(listed)}  {'; '.join(sorted(said))}")
    if wrong:
        print(f"    {wrong}")
    sys.stdout.flush()
    kept[name] = {"answers": found, **shown_by_node(running.pids, whole)}
    if whole:
        kept[name]["watch"] = gdr("watch", "--trace", "--interval", "2", "--count", "3")
    if name.startswith("NCCL"):
        told = json.loads(gdr("ps", "--ras", "--json"))["communicators"]
        known = [one for one in told if set(one["processes"]) == running.pids]
        print(f"    RAS: {len(known)} of {len(told)} communicators have these processes", flush=True)
        kept[name]["ras"] = told
    return looks - right


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--looks", type=int, default=10, help="looks at each job (10)")
    parser.add_argument("--seconds", type=float, default=210, help="no job starts later than this (210)")
    parser.add_argument("--only", help="comma-separated words with which the names of jobs begin")
    parser.add_argument("--evidence", type=Path, help="write what the node showed to this file")
    parser.add_argument("--brief", action="store_true", help="leave out gdr watch and nvidia-smi")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run[0], int(options.run[1]))
        return 0
    chosen = tuple(options.only.split(",")) if options.only else ("",)
    jobs = {name: job for name, job in JOBS.items() if name.startswith(chosen)}
    began = time.monotonic()
    kept: dict[str, Any] = {}
    wrong = 0
    started = {name: Running(job) for name, job in jobs.items()}
    try:
        for name, running in started.items():
            if time.monotonic() - began > options.seconds:
                print(f"{name:<20} not run: no time left")
                wrong += 1
                continue
            try:
                wrong += looked_at(name, running, options.looks, kept, not options.brief)
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"{name:<20} failed: {error}", flush=True)
                wrong += 1
            finally:
                running.end()
                if options.evidence:
                    options.evidence.write_text(json.dumps(kept, indent=1))
    finally:
        for running in started.values():
            running.end()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
