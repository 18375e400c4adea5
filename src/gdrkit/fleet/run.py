"""One run over a fleet: bundles are collected from the nodes and judged as they come.

Nothing waits for a slow node: every node has until the deadline of the run, and whatever happens to it is a
row.
"""

from __future__ import annotations

import os
import queue
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

from gdrkit.agent.pipes import kill_group
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.ssh import COLLECT_TIMEOUT_S, check_bundle, collect, remote_command
from gdrkit.facts.expectation import Supplied
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.judge import reason_of, without_answer
from gdrkit.fleet.launcher import Launcher
from gdrkit.fleet.pool import Pool, judge_all
from gdrkit.fleet.worker import Task, task_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

FANOUT, FANOUT_LIMIT = 32, 128
"""Nodes that are asked at once: each takes one process here, and five files."""
TIMEOUT_S = 600.0
"""The deadline of a run: a slow node takes as long as `gdr doctor ssh://` grants it, and its turn may be
late."""
INTERRUPTED = "interrupted before it answered"
Arrived = Callable[[NodeRow], None]


def judge_files(paths: Iterable[str], arrived: Arrived, expected: Supplied | None = None) -> bool:
    """Judge evidence that is here already; `arrived` gets each row. Returns false if it was interrupted."""
    left = {task.target: task for task in (task_of(path, expected) for path in paths)}

    def judged(row: NodeRow) -> None:
        left.pop(row.target, None)
        arrived(row)

    try:
        judge_all(list(left.values()), judged)
    except KeyboardInterrupt:
        for target in left:
            arrived(without_answer(target, "", INTERRUPTED, Standing.UNREADABLE))
    return not left


def _check(path: str, target: str) -> None:
    from gdrkit.evidence.archive import BLOCK
    from gdrkit.evidence.stream import open_stream

    with open(path, "rb") as file:
        check_bundle(open_stream(file, target).peek(BLOCK), target)


class Run:
    """Nodes to ask through a launcher."""

    def __init__(
        self,
        launcher: Launcher,
        folder: str,
        *,
        sudo: bool = False,
        timeout_s: float = TIMEOUT_S,
        expected: Supplied | None = None,
    ) -> None:
        self._launcher, self._folder, self._sudo, self._expected = launcher, folder, sudo, expected
        self._deadline = time.monotonic() + timeout_s
        self._done: queue.SimpleQueue[tuple[str, Future[Task]]] = queue.SimpleQueue()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._paths: dict[str, str] = {}
        self._ended = False

    def ask(self, nodes: Sequence[str], arrived: Arrived, fanout: int = FANOUT) -> bool:
        """Ask these nodes; `arrived` gets a row for each. Returns false if it was interrupted."""
        left = dict.fromkeys(nodes)
        self._paths = {node: os.path.join(self._folder, f"{n}.tar.gz") for n, node in enumerate(left)}
        down = self._launcher.down()
        executor = ThreadPoolExecutor(fanout)
        with Pool() as pool:
            try:
                for node in [node for node in left if node in down]:
                    del left[node]
                    arrived(self._silent(node, down[node]))
                for node in left:
                    future = executor.submit(self._ask, node)
                    future.add_done_callback(lambda done, node=node: self._done.put((node, done)))  # type: ignore[misc]
                while left:
                    for row in self._rows(pool):
                        del left[row.name]
                        arrived(row)
            except KeyboardInterrupt:
                for node in left:
                    arrived(self._silent(node, INTERRUPTED))
            finally:
                self._end(executor)
        return not left

    def _ask(self, node: str) -> Task:
        """The bundle of a node. Raises TargetError and OSError."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TargetError("not asked: the deadline of the run had passed")
        command = self._launcher.command(node, remote_command(sudo=self._sudo))
        target, path = self._launcher.target(node), self._paths[node]

        def started(child: subprocess.Popen[bytes]) -> None:
            self._running[node] = child
            if self._ended:  # interrupted between the two
                kill_group(child)

        with open(path, "w+b") as bundle:
            code, last_line = collect(
                command, bundle, min(left_s, COLLECT_TIMEOUT_S), quiet=True, started=started
            )
            if code or not bundle.tell():
                raise self._launcher.failure(node, code, last_line)
        _check(path, target)
        return Task(os.fsencode(path), target, node, self._expected)

    def _rows(self, pool: Pool) -> Iterator[NodeRow]:
        with suppress(queue.Empty):
            node, future = self._done.get(timeout=0.0 if pool.busy else 0.2)
            while True:
                if error := future.exception():
                    yield self._silent(node, reason_of(error))
                else:
                    pool.submit(future.result())
                node, future = self._done.get_nowait()
        if pool.busy:
            for row in pool.rows(0.05):
                with suppress(OSError):
                    os.unlink(self._paths[row.name])
                yield row

    def _silent(self, node: str, why: str) -> NodeRow:
        """The row of a node without a bundle."""
        return without_answer(self._launcher.target(node), node, why, Standing.UNREACHABLE)

    def _end(self, executor: ThreadPoolExecutor) -> None:
        """Ask no further nodes, and end the processes that still ask."""
        self._ended = True
        executor.shutdown(wait=False, cancel_futures=True)
        for child in list(self._running.values()):
            if child.returncode is None:
                kill_group(child)


@contextmanager
def bundle_folder() -> Iterator[str]:
    """A folder for bundles while they wait to be judged; only this user can read it."""
    with tempfile.TemporaryDirectory(prefix="gdr-fleet-") as folder:
        yield folder
