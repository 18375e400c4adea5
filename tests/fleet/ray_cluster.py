"""A Ray cluster of three raylets, each in a network namespace with an address of its own, and a fourth
namespace from which jobs are submitted. Everything in them is ended by process id."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.system_programs import missing, program

RAY = Path.home() / ".cache/gdrkit/ray/bin/ray"
"""Where .ci/run installs it."""
HEAD = "10.213.7.1"
NODES = (HEAD, "10.213.7.2", "10.213.7.3")
CLIENT = "10.213.7.4"
TOKEN = "0123456789abcdef" * 4
HANGS_S = 240.0
"""When to stop waiting for a cluster, which takes 10 s to start on two free cores."""
LEAN = ("--include-log-monitor=False", "--object-store-memory=100000000", "--num-cpus=1")
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": TOKEN,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "200",
    "PATH": f"{RAY.parent}:/usr/sbin:/usr/bin:/sbin:/bin",
}
WITHOUT = "needs root and Ray: .ci/run installs it"


def can_run() -> bool:
    return os.geteuid() == 0 and RAY.exists() and not missing("ip")


class Cluster:
    """The cluster: its namespaces by the addresses in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder  # short: it holds the paths of sockets
        self.spaces = {address: f"gdr-{os.getpid()}-{address[-1]}" for address in (*NODES, CLIENT)}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._ran: set[str] = set()

    def start(self) -> None:
        for space in self.spaces.values():
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
        head = self.spaces[HEAD]
        _ip("-n", head, "link", "add", "bridge", "type", "bridge")
        _ip("-n", head, "addr", "add", f"{HEAD}/24", "dev", "bridge")
        _ip("-n", head, "link", "set", "bridge", "up")
        for address in (*NODES[1:], CLIENT):
            space, port = self.spaces[address], f"to-{address[-1]}"
            _ip("link", "add", "netns", head, "name", port, "type", "veth", "peer", "eth0", "netns", space)
            _ip("-n", head, "link", "set", port, "master", "bridge", "up")
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")

    def keep(self) -> None:
        """Start the nodes, those again that gave up: a raylet waits no more than 15 s for its helpers."""
        for address in NODES:
            child = self._children.get(address)
            runs = bool(self.processes(address, "/raylet/raylet"))
            if child is None or child.poll() is not None or (address in self._ran and not runs):
                for other in NODES if address == HEAD else (address,):
                    self._ran.discard(other)
                    self.kill(other)
                words = ("--head", f"--dashboard-host={HEAD}", "--no-monitor")
                self._ray(address, *(words if address == HEAD else (f"--address={HEAD}:6379",)))
            elif runs:
                self._ran.add(address)
            if address == HEAD and self.run(HEAD, "bash", "-c", f"</dev/tcp/{HEAD}/8265").returncode:
                return  # the others wait for the dashboard

    def _ray(self, address: str, *words: str) -> None:
        """Start a node; `ray start --block` stays its parent."""
        # A raylet ends itself if its helpers take more than 15 s to start, which they would on busy cores.
        command = [
            "nice",
            "-n",
            "-15",
            RAY,
            "start",
            "--block",
            f"--node-ip-address={address}",
            *LEAN,
            *words,
        ]
        command.append(f"--temp-dir={self.folder / address[-1]}")  # each node has a disk of its own
        with (self.folder / "start.log").open("ab") as log:
            child = subprocess.Popen(
                [program("ip"), "netns", "exec", self.spaces[address], *command],
                env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self._children[address] = child

    def begin(self, address: str, *words: object, **environment: str) -> subprocess.Popen[str]:
        """Start a command in the namespace of an address."""
        return subprocess.Popen(
            [program("ip"), "netns", "exec", self.spaces[address], *map(str, words)],
            env={**os.environ, **environment}, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, address: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        child = self.begin(address, *words, **environment)
        output, errors = child.communicate(timeout=HANGS_S)
        return subprocess.CompletedProcess(child.args, child.returncode, output, errors)

    def processes(self, address: str, title: str) -> list[int]:
        """The processes of a node whose command line begins so."""
        found = []
        for pid in _pids(self.spaces[address]):
            with contextlib.suppress(OSError):
                if title.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().partition(b" -")[0]:
                    found.append(pid)
        return found

    def kill(self, address: str) -> None:
        """End every process of a node."""
        while pids := _pids(self.spaces[address]):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def stop(self) -> None:
        for address, space in self.spaces.items():
            self.kill(address)
            _ip("netns", "del", space, check=False)
        for child in self._children.values():
            child.wait()


def _pids(space: str) -> list[int]:
    return [int(pid) for pid in _ip("netns", "pids", space, check=False).split()]


def _ip(*words: str, check: bool = True) -> str:
    return subprocess.run([program("ip"), *words], check=check, capture_output=True, text=True).stdout


def wait_until(condition: Callable[[], object], every_s: float = 0.05) -> None:
    end = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < end, "it hangs"
        time.sleep(every_s)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
