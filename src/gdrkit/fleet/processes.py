"""Launchers that start one process here for each node: the collector goes to its standard input, and the
bundle comes back on its standard output."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from gdrkit.agent.launch import ssh
from gdrkit.agent.pipes import end_group, kill_group, terminate_group
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.ssh import COLLECT_TIMEOUT_S, GRACE_S, collect, failure, remote_command
from gdrkit.fleet.launcher import Answered, Asking, Launcher, Request

FANOUT = 32
"""Each node takes one process here, and five files."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess


class PerNode(Launcher, Protocol):
    """A launcher that knows the command for each node."""

    fanout: int = FANOUT

    def command(self, node: str, program: str) -> list[str]:
        """The words that run a shell command on a node."""

    def failure(self, node: str, code: int, lines: Sequence[str]) -> TargetError:
        """Why a node sent no bundle, by the exit code of the command and the last lines of its errors."""

    def clean(self) -> None:
        """End what commands that had to be killed may have left on the nodes."""

    def ask(self, request: Request, answered: Answered) -> Asking:
        processes = Processes(self, request, answered)
        for node in request.bundles:
            processes.add(node)
        return processes


class Processes:
    """Processes that ask nodes, some at once."""

    def __init__(self, launcher: PerNode, request: Request, answered: Answered) -> None:
        self._launcher, self._request, self._answered = launcher, request, answered
        self._executor = ThreadPoolExecutor(request.fanout)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ended = False

    def add(self, node: str) -> None:
        """Ask a node as soon as it is its turn."""

        def done(future: Future[None]) -> None:
            if not future.cancelled():
                self._answered(node, future.exception())

        self._executor.submit(self._ask, node).add_done_callback(done)

    def _ask(self, node: str) -> None:
        """Write the bundle of a node. Raises TargetError and OSError."""
        left_s = self._request.deadline - time.monotonic()
        if left_s <= 0:
            raise TargetError("not asked: the deadline of the run had passed")
        command = self._launcher.command(node, remote_command(sudo=self._request.sudo))

        def started(child: subprocess.Popen[bytes]) -> None:
            self._running[node] = child
            if self._ended:  # interrupted between the two
                kill_group(child)

        with open(self._request.bundles[node], "w+b") as bundle:
            code, lines = collect(
                command, bundle, min(left_s, COLLECT_TIMEOUT_S), quiet=True, started=started
            )
            if code or not bundle.tell():
                raise self._launcher.failure(node, code, lines)

    def end(self) -> str:
        """Ask no further nodes, and end the processes that still ask."""
        self._ended = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        children = list(self._running.values())
        asked = [child for child in children if child.poll() is None]
        for child in asked:
            terminate_group(child)
        deadline = time.monotonic() + GRACE_S
        for child in asked:
            end_group(child, max(0.0, deadline - time.monotonic()))
        if any(child.returncode is not None and child.returncode < 0 for child in children):
            self._launcher.clean()
        return ""


class Ssh(PerNode):
    """Nodes by name or address, through the system's OpenSSH with the user's own configuration."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def nodes(self) -> Sequence[str]:
        return self._names

    def down(self) -> dict[str, str]:
        return {}

    def command(self, node: str, program: str) -> list[str]:
        return ssh(node, program)

    def target(self, node: str) -> str:
        user, at, host = node.rpartition("@")
        return f"ssh://{user}{at}{f'[{host}]' if ':' in host else host}"

    def failure(self, node: str, code: int, lines: Sequence[str]) -> TargetError:
        return failure(self.target(node), code, lines)

    def clean(self) -> None:
        """Nothing: what runs there ends when it writes, since its connection has closed."""
