"""Launchers that start one process here for each node: the collector goes to its standard input, and the
bundle comes back on its standard output. The two processes of a pair of nodes are connected with each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from gdrkit.agent.launch import ssh
from gdrkit.agent.pipes import end_group, kill_group, terminate_group
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.ssh import COLLECT_TIMEOUT_S, COLLECTOR, GRACE_S, collect, failure, remote_command
from gdrkit.fleet.launcher import (
    SSH,
    Answered,
    Asking,
    EndLost,
    Launcher,
    NodeFailed,
    Pair,
    PairAnswered,
    PairEnd,
    PairRate,
    PairRequest,
    Request,
    Started,
    target_of,
)

FANOUT = 32
"""Each node takes one process here, and five files."""
MEASUREMENT = "gdr bench"
"""What runs on the nodes of a pair, in errors."""
NOT_ASKED = "not asked: the deadline of the run had passed"

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

T = TypeVar("T")


class PerNode(Launcher, Protocol):
    """A launcher that knows the command for each node."""

    fanout: int = FANOUT

    def command(self, node: str, program: str) -> list[str]:
        """The words that run a shell command on a node."""

    def failure(self, node: str, code: int, lines: Sequence[str], program: str = COLLECTOR) -> TargetError:
        """Why a program did not do its work on a node, by the exit code of the command and the last lines of
        its errors."""

    def clean(self) -> None:
        """End what commands that had to be killed may have left on the nodes."""

    def ask(self, request: Request, answered: Answered) -> Asking:
        processes = Processes(request.fanout, self.clean)
        left = iter(request.bundles)  # of all threads: most of 100,000 nodes never have their turn

        def in_turn(started: Started) -> None:
            for node in left:
                if processes.ended:
                    return
                try:
                    _collect(self, request, node, started)
                except BaseException as error:
                    answered(node, error)
                else:
                    answered(node, None)

        for _ in range(min(request.fanout, len(request.bundles))):
            processes.add(in_turn, lambda future: None)
        return processes

    def collect(self, processes: Processes, request: Request, node: str, answered: Answered) -> None:
        """Ask a node for its bundle as soon as it is its turn."""
        processes.add(
            partial(_collect, self, request, node), lambda future: answered(node, future.exception())
        )


class PerPair(PerNode, Protocol):
    """One that can also run a program on two nodes which reach each other."""

    def address(self, node: str) -> str:
        """Where other nodes reach a node; "" if ssh tells the node. Raises TargetError."""

    def ask_pairs(self, request: PairRequest, answered: PairAnswered) -> Asking:
        processes = Processes(max(1, request.fanout // 2), self.clean)
        for pair in request.pairs:
            processes.add(partial(_meet, self, request, pair), partial(_rate, answered, pair))
        return processes


def _collect(launcher: PerNode, request: Request, node: str, started: Started) -> None:
    """Write the bundle of a node. Raises TargetError and OSError."""
    left_s = request.deadline - time.monotonic()
    if left_s <= 0:
        raise TargetError(NOT_ASKED, "--timeout S sets a later one")
    command = launcher.command(node, remote_command(sudo=request.sudo))
    with open(request.bundles[node], "w+b") as bundle:
        code, lines = collect(command, bundle, min(left_s, COLLECT_TIMEOUT_S), quiet=True, started=started)
        if code or not bundle.tell():
            raise launcher.failure(node, code, lines)


def _meet(launcher: PerPair, request: PairRequest, pair: Pair, started: Started) -> PairRate:
    """Measure a pair. Raises NodeFailed, TargetError and OSError."""
    if time.monotonic() >= request.deadline:
        raise TargetError(NOT_ASKED)
    first, second = (
        PairEnd(launcher.command(node, request.program), partial(launcher.address, node)) for node in pair
    )
    try:
        return request.meet(first, second, request.deadline, started)
    except FileNotFoundError:
        raise TargetError(f"{first.command[0]} is not installed here") from None
    except EndLost as lost:
        node = pair[lost.end]
        if lost.code is None:
            raise NodeFailed(node, str(lost)) from None
        why = launcher.failure(node, lost.code, lost.lines, MEASUREMENT)
        raise NodeFailed(node, str(why)) from None


def _rate(answered: PairAnswered, pair: Pair, future: Future[PairRate]) -> None:
    answered(pair, future.exception() or future.result())


class Processes:
    """Threads, each of which starts processes that ask nodes."""

    def __init__(self, threads: int, clean: Callable[[], None]) -> None:
        """`clean` is called at the end if a process had to be killed."""
        self._executor, self._clean = ThreadPoolExecutor(threads), clean
        self._running: list[subprocess.Popen[bytes]] = []
        self.ended = False

    def add(self, work: Callable[[Started], T], done: Callable[[Future[T]], None]) -> None:
        """Queue some work; when it runs, it reports each process that it starts. `done` is not called
        if its turn never comes."""

        def finished(future: Future[T]) -> None:
            if not future.cancelled():
                done(future)

        self._executor.submit(work, self._started).add_done_callback(finished)

    def _started(self, child: subprocess.Popen[bytes]) -> None:
        self._running.append(child)
        if self.ended:  # interrupted between the two
            kill_group(child)

    def end(self) -> str:
        """Begin no further work, and end the processes that still run."""
        self.ended = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        children = list(self._running)
        asked = [child for child in children if child.poll() is None]
        for child in asked:
            terminate_group(child)
        deadline = time.monotonic() + GRACE_S
        for child in asked:
            end_group(child, max(0.0, deadline - time.monotonic()))
        if any(child.returncode is not None and child.returncode < 0 for child in children):
            self._clean()
        return ""


class Ssh(PerPair):
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
        return target_of(SSH, node)

    def address(self, node: str) -> str:
        return ""

    def failure(self, node: str, code: int, lines: Sequence[str], program: str = COLLECTOR) -> TargetError:
        return failure(self.target(node), code, lines, program)

    def clean(self) -> None:
        """Nothing: what runs there ends when it writes, since its connection has closed."""
