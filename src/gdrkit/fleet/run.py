"""One run over a fleet: bundles are collected from the nodes and judged as they come.

Nothing waits for a slow node: every node has until the deadline of the run, and whatever happens to it is a
row.
"""

from __future__ import annotations

import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gdrkit.evidence.ssh import COLLECT_TIMEOUT_S, check_bundle, collect, remote_command
from gdrkit.facts.expectation import Supplied
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.judge import reason_of, without_answer
from gdrkit.fleet.launcher import Launcher
from gdrkit.fleet.pool import Pool
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
    with Pool() as pool:
        for task in left.values():
            pool.submit(task)
        try:
            while pool.busy:
                for row in pool.rows():
                    left.pop(row.target, None)
                    arrived(row)
        except KeyboardInterrupt:
            for task in left.values():
                arrived(without_answer(task.target, "", INTERRUPTED, Standing.UNREADABLE))
    return not left


class Asking(threading.Thread):
    """Asks one node after another, as long as there are any; puts a task or a row into `done`."""

    def __init__(self, run: Run) -> None:
        super().__init__(daemon=True)
        self.fleet_run = run
        self.child: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        run = self.fleet_run
        while True:
            try:
                node = run.waiting.get_nowait()
            except queue.Empty:
                return
            try:
                run.done.put(self._ask(node))
            except Exception as error:
                run.done.put(run.silent(node, reason_of(error)))

    def _ask(self, node: str) -> Task | NodeRow:
        run = self.fleet_run
        left_s = run.deadline - time.monotonic()
        if left_s <= 0:
            return run.silent(node, "not asked: the deadline of the run had passed")
        path = os.path.join(run.folder, f"{run.number(node)}.tar.gz")
        command = run.launcher.command(node, remote_command(sudo=run.sudo))
        with open(path, "w+b") as bundle:
            code, last_line = collect(
                command, bundle, min(left_s, COLLECT_TIMEOUT_S), quiet=True, started=self._remember
            )
            if code or not bundle.tell():
                raise run.launcher.failure(node, code, last_line)
            _check(path, run.launcher.target(node))
        return Task(os.fsencode(path), run.launcher.target(node), node, run.expected)

    def _remember(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child


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
        self.launcher, self.folder, self.sudo, self.expected = launcher, folder, sudo, expected
        self.deadline = time.monotonic() + timeout_s
        self.waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[Task | NodeRow] = queue.SimpleQueue()
        self._numbers: dict[str, int] = {}

    def number(self, node: str) -> int:
        """A number for the file of a node, whose name may be no file name."""
        return self._numbers[node]

    def silent(self, node: str, why: str) -> NodeRow:
        """The row of a node without a bundle."""
        return without_answer(self.launcher.target(node), node, why, Standing.UNREACHABLE)

    def ask(self, nodes: Sequence[str], arrived: Arrived, fanout: int = FANOUT) -> bool:
        """Ask these nodes; `arrived` gets a row for each. Returns false if it was interrupted."""
        down = self.launcher.down()
        left = dict.fromkeys(nodes)
        self._numbers = {node: number for number, node in enumerate(left)}
        for node in left:
            if node in down:
                self.done.put(self.silent(node, down[node]))
            else:
                self.waiting.put(node)
        askers = [Asking(self) for _ in range(min(fanout, len(left)))]
        with Pool() as pool:
            try:
                for asker in askers:
                    asker.start()
                while left:
                    for row in self._rows(pool):
                        del left[row.name]
                        arrived(row)
            except KeyboardInterrupt:
                for node in left:
                    arrived(self.silent(node, INTERRUPTED))
            finally:
                _end(self.waiting, askers)
        return not left

    def _rows(self, pool: Pool) -> Iterator[NodeRow]:
        with suppress(queue.Empty):
            found = self.done.get(timeout=0.0 if pool.busy else 0.2)
            while True:
                if isinstance(found, NodeRow):
                    yield found
                else:
                    pool.submit(found)
                found = self.done.get_nowait()
        if pool.busy:
            for row in pool.rows(0.05):
                with suppress(OSError):
                    os.unlink(os.path.join(self.folder, f"{self.number(row.name)}.tar.gz"))
                yield row


def _end(waiting: queue.SimpleQueue[str], askers: Iterable[Asking]) -> None:
    """Ask no further nodes, and end the processes that still ask."""
    from gdrkit.agent.pipes import kill_group

    with suppress(queue.Empty):
        while True:
            waiting.get_nowait()
    for asker in askers:
        if asker.child is not None and asker.child.returncode is None:
            kill_group(asker.child)


@contextmanager
def bundle_folder() -> Iterator[str]:
    """A folder for bundles while they wait to be judged; only this user can read it."""
    with tempfile.TemporaryDirectory(prefix="gdr-fleet-") as folder:
        yield folder
