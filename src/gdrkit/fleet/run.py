"""One run over a fleet: bundles are collected from the nodes and judged as they come.

Nothing waits for a slow node: every node has until the deadline of the run, and each outcome is a row.
"""

from __future__ import annotations

import math
import os
import queue
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gdrkit.agent.output_file import temporary_folder
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.ssh import check_bundle
from gdrkit.facts.expectation import Supplied
from gdrkit.fleet.document import INTERRUPTED, NodeRow, Standing
from gdrkit.fleet.judge import without_answer
from gdrkit.fleet.launcher import Asking, Launcher, Request
from gdrkit.fleet.pool import GRACE_S, Pool, judge_all
from gdrkit.fleet.worker import Task, task_of

TIMEOUT_S = 600.0
"""The deadline of a run: a slow node takes as long as `gdr doctor ssh://` grants it, and its turn may be
late."""
Arrived = Callable[[NodeRow], None]


def judge_files(
    paths: Iterable[str], arrived: Arrived, expected: Supplied | None = None, deadline: float = math.inf
) -> bool:
    """Judge evidence that is here already; `arrived` gets each row. Returns false if it was interrupted."""
    tasks = [task_of(path, expected) for path in paths]
    left = Counter(task.target for task in tasks)  # two names that are not text may be written alike

    def judged(row: NodeRow) -> None:
        left[row.target] -= 1
        arrived(row)

    try:
        judge_all(tasks, judged, deadline=deadline)
    except KeyboardInterrupt:
        for target in left.elements():
            arrived(without_answer(target, "", INTERRUPTED, Standing.UNREADABLE))
    return not left.total()


def _check(path: str, target: str) -> None:
    from gdrkit.evidence.archive import BLOCK
    from gdrkit.evidence.stream import beginning

    with open(path, "rb") as file:
        check_bundle(beginning(file, BLOCK), target)


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
        self._answers: queue.SimpleQueue[tuple[str, BaseException | None]] = queue.SimpleQueue()
        self._paths: dict[str, str] = {}
        self._waiting: set[str] = set()
        self.remains = ""
        """The command that removes what the run left on the cluster; "" if it left nothing."""

    def ask(self, nodes: Sequence[str], arrived: Arrived, fanout: int = 0) -> bool:
        """Ask these nodes; `arrived` gets a row for each. Returns false if it was interrupted."""
        left = dict.fromkeys(nodes)
        down = self._launcher.down()
        asking: Asking | None = None
        with Pool(deadline=self._deadline) as pool:
            try:
                for node in [node for node in left if node in down]:
                    del left[node]
                    arrived(self._silent(node, down[node]))
                self._paths = {
                    node: os.path.join(self._folder, f"{n}.tar.gz") for n, node in enumerate(left)
                }
                self._waiting = set(left)
                request = Request(self._paths, self._sudo, self._deadline, fanout or self._launcher.fanout)
                if left:
                    asking = self._launcher.ask(request, lambda *answer: self._answers.put(answer))
                while left:
                    for row in self._rows(pool):
                        del left[row.name]
                        arrived(row)
            except KeyboardInterrupt:
                for node in left:
                    arrived(self._silent(node, INTERRUPTED))
            finally:
                self.remains = asking.end() if asking is not None else ""
        return not left

    def _rows(self, pool: Pool) -> Iterator[NodeRow]:
        for node, error in self._answered(0.0 if pool.busy else 0.2):
            if node not in self._waiting:
                continue  # it was given up
            self._waiting.remove(node)
            if error := error or self._wrong(node):
                yield self._silent(node, error)
            else:
                target = self._launcher.target(node)
                pool.submit(Task(os.fsencode(self._paths[node]), target, node, self._expected))
        if pool.busy:
            for row in pool.rows(0.05):
                with suppress(OSError):
                    os.unlink(self._paths[row.name])
                yield row

    def _answered(self, wait_s: float) -> Iterator[tuple[str, BaseException | None]]:
        """The answers that came, after waiting for one for a while. After the deadline every node has one,
        whatever its launcher does."""
        with suppress(queue.Empty):
            yield self._answers.get(timeout=wait_s)
            while True:
                yield self._answers.get_nowait()
        if time.monotonic() > self._deadline + GRACE_S:
            for node in list(self._waiting):
                yield node, TargetError("no answer before the deadline of the run")

    def _wrong(self, node: str) -> TargetError | OSError | None:
        """The error if what a node sent does not begin a bundle."""
        try:
            _check(self._paths[node], self._launcher.target(node))
        except (TargetError, OSError) as error:
            return error
        return None

    def _silent(self, node: str, why: BaseException | str) -> NodeRow:
        """The row of a node without a bundle."""
        return without_answer(self._launcher.target(node), node, why, Standing.UNREACHABLE)


@contextmanager
def bundle_folder() -> Iterator[str]:
    """A folder for bundles while they wait to be judged; only this user can read it."""
    with tempfile.TemporaryDirectory(prefix="gdr-fleet-", dir=temporary_folder()) as folder:
        yield folder
