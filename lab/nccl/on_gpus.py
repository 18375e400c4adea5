"""Runs NCCL on generated topologies, on a machine with two GPUs; needs only Python and NCCL.

`python3 -m lab.nccl.on_gpus OUT [SECONDS]` writes OUT/judge.json.xz: for each case the seed of its file,
NCCL's output about its graph, paths and decisions for each rank, and the file that it dumped. NCCL trusts
a topology file if the addresses of GPUs and the names of network interfaces are real. The interfaces are
aliases (eth0:1), which NCCL counts as interfaces. Sockets do not support GPUDirect RDMA, so the jobs fail
in the end; NCCL prints its decisions before that.

Modes: `one` host with both GPUs; `two` hosts (NCCL_HOSTID) with both GPUs each, so that four ranks use the
network; `alone`, where the GPUs are only connected by the network.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import lzma
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from lab.nccl.generate import Case, Shape, case

SIOCSIFADDR, SIOCSIFNETMASK, SIOCGIFADDR = 0x8916, 0x891C, 0x8915
SEEDS = range(1000, 1240)
MODES = ("two", "two", "one", "alone")
CONCURRENT = 8
JOB_SECONDS, GRACE_SECONDS = 40.0, 4.0
KEPT = re.compile(
    r"GPU Direct RDMA|===|^\s*\+ |^(CPU|GPU|NET|NVS)/|via NET|set by environment|via C2C|KV Convert|WARN"
    r"|NCCL version|failed|Init COMPLETE|Using \[|Could not find intermediate"
)
PLAIN_JOBS: dict[str, tuple[str, dict[str, str]]] = {
    "default": ("one", {}),
    "p2p-disabled": ("one", {"NCCL_P2P_DISABLE": "1"}),
    "shm-disabled": ("one", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}),
    "network": ("two", {}),
}
"""Jobs with the machine's real topology: mode and environment."""
ALWAYS = {
    "NCCL_NET": "Socket",
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,NET",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_RUNTIME_CONNECT": "0",
    "NCCL_RAS_ENABLE": "0",
    "NCCL_MNNVL_ENABLE": "0",
}


def interface() -> str:
    """The first interface that has an address and is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for _, name in socket.if_nameindex():
            try:
                fcntl.ioctl(control, SIOCGIFADDR, struct.pack("16s24x", name.encode()))
            except OSError:
                continue
            if name != "lo":
                return name
    return "lo"


def alias(name: str, address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.255")):
            packed = struct.pack("16sHH4s16x", name.encode(), socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(control, request, packed)


def interfaces(count: int) -> list[str]:
    base = interface()
    names = [base]
    for at in range(1, count):
        try:
            alias(f"{base}:{at}", f"198.18.0.{at}")
        except OSError as error:
            print(f"no alias {at} of {base}: {error}", flush=True)
            break
        names.append(f"{base}:{at}")
    return names


def addresses() -> list[str]:
    """The addresses of the GPUs, as NCCL writes them in its files."""
    out = subprocess.run(
        ["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [address.lower()[-12:] for address in out]


def library() -> str:
    found = sorted(Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"))
    return str(found[0]) if found else "libnccl.so.2"


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def rank_main(
    nccl: ctypes.CDLL, rank: int, ranks: int, device: int, identity: int, others: list[int]
) -> int:
    """One rank, in its own process: join the communicator and end. Returns NCCL's result."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    handle = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(handle), device):
        return 90
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle) or cuda.cuCtxSetCurrent(context):
        return 91
    unique = UniqueId()
    if rank == 0:
        if nccl.ncclGetUniqueId(ctypes.byref(unique)):
            return 92
        for other in others:
            os.write(other, bytes(unique))
    else:
        ctypes.memmove(ctypes.byref(unique), os.read(identity, 128), 128)
    communicator = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    result: int = nccl.ncclCommInitRank(ctypes.byref(communicator), ranks, unique, rank)
    return result


class Job:
    """The processes of one case."""

    def __init__(
        self, nccl: ctypes.CDLL, name: str, mode: str, environment: dict[str, str], folder: str
    ) -> None:
        self.name, self.mode, self.folder = name, mode, folder
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.started, self.first_end = time.monotonic(), 0.0
        ranks = 4 if mode == "two" else 2
        pipes = [os.pipe() for _ in range(ranks)]
        self.results: dict[int, int] = {}
        self.processes: dict[int, int] = {}
        for rank in range(ranks):
            process = os.fork()
            if process == 0:
                self._become(nccl, rank, ranks, environment, pipes)
            self.processes[process] = rank
        for ends in pipes:
            for end in ends:
                os.close(end)

    def _become(
        self,
        nccl: ctypes.CDLL,
        rank: int,
        ranks: int,
        environment: dict[str, str],
        pipes: list[tuple[int, int]],
    ) -> None:
        own = {**ALWAYS, **environment, "NCCL_DEBUG_FILE": f"{self.folder}/rank{rank}.log"}
        if self.mode == "two":
            own["NCCL_HOSTID"] = f"host{rank // 2}"
        if self.mode == "alone":
            own |= {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
        os.environ.update(own)
        quiet = os.open("/dev/null", os.O_RDWR)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = 99
        try:
            code = rank_main(nccl, rank, ranks, rank % 2, pipes[rank][0], [end for _, end in pipes[1:]])
        finally:
            os._exit(code)

    def over(self) -> bool:
        """Whether all processes have ended. Kills the rest a while after the first has ended, or at the
        time limit.
        """
        now = time.monotonic()
        for process in list(self.processes):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                self.results[self.processes.pop(process)] = os.waitstatus_to_exitcode(status)
                self.first_end = self.first_end or now
        late = self.first_end and now - self.first_end > GRACE_SECONDS
        if self.processes and (late or now - self.started > JOB_SECONDS):
            for process, rank in self.processes.items():
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                self.results[rank] = -9
            self.processes = {}
        return not self.processes

    def report(self, whole: bool = False) -> dict[str, object]:
        logs = []
        for path in sorted(Path(self.folder).glob("rank*.log")):
            text = path.read_text(errors="replace").splitlines()
            lines = [re.sub(r"^.*?NCCL (INFO|WARN) ", "", line.rstrip()) for line in text]
            logs.append([line for line in lines if whole or KEPT.search(line)])
        report: dict[str, object] = {
            "name": self.name,
            "mode": self.mode,
            "results": self.results,
            "logs": logs,
        }
        for kind in ("dump.xml", "graph.xml"):
            if (written := Path(self.folder, kind)).exists():
                report[kind] = written.read_text()
        return report


def jobs_of(gpus: list[str], nets: list[str], folder: str) -> list[tuple[str, str, dict[str, str]]]:
    """Name, mode and environment of every job: first those with the real topology, then the cases."""
    plain = {"NCCL_SOCKET_IFNAME": nets[0], "NCCL_GRAPH_DUMP_FILE": "graph.xml"}
    found = [(name, mode, plain | own) for name, (mode, own) in PLAIN_JOBS.items()]
    for seed in SEEDS:
        made: Case = case(seed, shape_of(gpus, nets, seed))
        path = f"{folder}/{seed}.xml"
        Path(path).write_text(made.xml)
        environment = {**made.environment, "NCCL_TOPO_FILE": path, "NCCL_SOCKET_IFNAME": nets[0]}
        found.append((str(seed), MODES[seed % len(MODES)], environment))
    return found


def shape_of(gpus: list[str], nets: list[str], seed: int) -> Shape:
    """A shape for real GPUs: two GPUs, one NIC per interface name, no NVLink to CPUs."""
    count = (1, 2, 3, 4)[seed // 4 % 4]
    return Shape(
        gpus=tuple(gpus),
        nets=tuple(nets[:count]),
        capabilities=(70, 80, 90, 90, 100),
        nvlink_shapes=("off", "switch", "mesh", "switch"),
    )


def main() -> None:
    out, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 420.0
    begun = time.monotonic()
    gpus, nets = addresses(), interfaces(4)
    print("gpus", gpus, "nets", nets, library(), flush=True)
    nccl = ctypes.CDLL(library())
    folder = "/tmp/judge"
    Path(folder).mkdir(exist_ok=True)
    waiting, done = jobs_of(gpus, nets, folder), []
    running: list[Job] = []
    while waiting or running:
        if time.monotonic() - begun > seconds:
            waiting = []
        while waiting and len(running) < CONCURRENT:
            name, mode, environment = waiting.pop(0)
            job_folder = f"{folder}/job-{name}"
            files = {"NCCL_TOPO_DUMP_FILE": f"{job_folder}/dump.xml"}
            if "NCCL_GRAPH_DUMP_FILE" in environment:
                files["NCCL_GRAPH_DUMP_FILE"] = f"{job_folder}/graph.xml"
            running.append(Job(nccl, name, mode, {**environment, **files}, job_folder))
        for job in [job for job in running if job.over()]:
            running.remove(job)
            done.append(job.report(whole=not job.name.isdigit()))
            if len(done) % 20 == 0:
                print(len(done), "jobs", round(time.monotonic() - begun), "s", flush=True)
        time.sleep(0.02)
    with lzma.open(f"{out}/judge.json.xz", "wt") as file:
        json.dump({"gpus": gpus, "nets": nets, "jobs": done}, file)
    print("finished", len(done), "jobs in", round(time.monotonic() - begun), "s", flush=True)


if __name__ == "__main__":
    main()
