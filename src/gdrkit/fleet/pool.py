"""Judges many nodes in several processes. A task that dies, hangs or babbles costs a row, not the run."""

from __future__ import annotations

import math
import os
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType

import msgspec

from gdrkit.agent.launch import isolated
from gdrkit.agent.pipes import kill_group
from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.judge import without_answer
from gdrkit.fleet.worker import Task
from gdrkit.formats.errors import FormatError
from gdrkit.formats.json_text import decode

TASK_LIMIT_S = 120.0
"""How long one node may take: the largest bundle takes 5 s on a slow core."""
GRACE_S = 5.0
"""How late a run may end: launchers end at its deadline by themselves; what came until then is judged."""
LEAST_S = 2.0
"""How long a bundle may be judged that came just before the deadline: most take 0.3 s."""
TOO_LATE = TargetError("not judged before the deadline of the run", "--timeout S sets a later one")
ROW_LIMIT_BYTES = 1 << 20


def cores() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0))


class _JudgingProcess:
    """One process, the task that it has, and what it has written of the row."""

    def __init__(self) -> None:
        import subprocess

        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            isolated("gdrkit.fleet.worker"), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        os.set_blocking(self.stdin.fileno(), False)
        self.task: Task | None = None
        self.deadline = 0.0
        self.unsent = b""
        self.written = b""

    def give(self, task: Task, deadline: float) -> None:
        self.task, self.deadline, self.written = task, deadline, b""
        self.unsent = msgspec.json.encode(task) + b"\n"
        self.send()

    def send(self) -> None:
        """Write as much of the task as the pipe takes: one with an expectation may be longer than a pipe."""
        try:
            self.unsent = self.unsent[os.write(self.stdin.fileno(), self.unsent) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.unsent = b""  # its end of output shows that it has died

    def take(self) -> NodeRow | None:
        """The row, if it is complete. Raises EOFError if the process ended or writes something else."""
        block = os.read(self.stdout.fileno(), 1 << 16)
        self.written += block
        if not block or len(self.written) > ROW_LIMIT_BYTES:
            raise EOFError
        if not self.written.endswith(b"\n"):
            return None
        try:
            return decode(self.written, NodeRow)
        except FormatError:
            raise EOFError from None

    def end(self) -> None:
        kill_group(self.process)
        self.stdout.close()
        try:
            self.stdin.close()
        except BrokenPipeError:
            return


class Pool:
    """Judges tasks as they come. A context manager: what still runs at its end is killed."""

    def __init__(
        self, processes: int = 0, limit_s: float = TASK_LIMIT_S, deadline: float = math.inf
    ) -> None:
        self._most = processes or cores()
        self._limit_s = limit_s
        self._deadline = deadline
        self._waiting: deque[Task] = deque()
        self._workers: list[_JudgingProcess] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in list(self._workers):
            self._drop(worker)
        self._selector.close()

    def submit(self, task: Task) -> None:
        """Judge a task as soon as a process is free."""
        self._waiting.append(task)

    @property
    def busy(self) -> int:
        """Tasks without a row."""
        return len(self._waiting) + sum(worker.task is not None for worker in self._workers)

    def rows(self, wait_s: float = 0.2) -> Iterator[NodeRow]:
        """The rows that are ready, after waiting for one for a while."""
        self._distribute()
        for key, _ in self._selector.select(wait_s) if self._selector.get_map() else ():
            worker: _JudgingProcess = key.data
            task = worker.task
            if task is None:  # it was dropped in this turn
                continue
            if key.fileobj is worker.stdin:
                worker.send()
                if not worker.unsent:
                    self._selector.unregister(worker.stdin)
                continue
            try:
                row = worker.take()
            except EOFError:
                yield self._lost(worker, task, "the process that judged it died: too much memory?")
                continue
            if row is not None:
                self._forget(worker)
                yield row
        now = time.monotonic()
        for worker in [w for w in self._workers if w.task is not None and now > w.deadline]:
            assert worker.task is not None
            hung = f"judging it took more than {self._limit_s:g} s"
            yield self._lost(worker, worker.task, TOO_LATE if worker.deadline >= self._deadline else hung)
        if now > self._deadline + GRACE_S:
            while self._waiting:
                yield _unjudged(self._waiting.popleft(), TOO_LATE)
        self._distribute()

    def _ends(self, now: float) -> float:
        """When a task that begins now must have its row.

        What hangs ends at the deadline of the run, so that what waits behind it is judged in the grace."""
        if now >= self._deadline:
            return self._deadline + GRACE_S
        return min(now + self._limit_s, max(self._deadline, now + LEAST_S))

    def _distribute(self) -> None:
        while self._waiting and time.monotonic() <= self._deadline + GRACE_S:
            worker = next((worker for worker in self._workers if worker.task is None), None)
            if worker is None:
                if len(self._workers) == self._most:
                    return
                worker = _JudgingProcess()
                self._workers.append(worker)
            worker.give(self._waiting.popleft(), self._ends(time.monotonic()))
            self._selector.register(worker.stdout, selectors.EVENT_READ, worker)
            if worker.unsent:
                self._selector.register(worker.stdin, selectors.EVENT_WRITE, worker)

    def _lost(self, worker: _JudgingProcess, task: Task, why: TargetError | str) -> NodeRow:
        self._drop(worker)
        return _unjudged(task, why)

    def _forget(self, worker: _JudgingProcess) -> None:
        """Wait no longer for what a process does with its task."""
        worker.task = None
        for pipe in (worker.stdout, worker.stdin):
            if pipe in self._selector.get_map():
                self._selector.unregister(pipe)

    def _drop(self, worker: _JudgingProcess) -> None:
        self._forget(worker)
        self._workers.remove(worker)
        worker.end()


def _unjudged(task: Task, why: TargetError | str) -> NodeRow:
    return without_answer(task.target, task.name, why, Standing.UNREADABLE)


def judge_all(
    tasks: Iterable[Task],
    arrived: Callable[[NodeRow], None],
    processes: int = 0,
    limit_s: float = TASK_LIMIT_S,
    deadline: float = math.inf,
) -> None:
    """Judge every task; `arrived` gets each row as it comes."""
    with Pool(processes, limit_s, deadline) as pool:
        for task in tasks:
            pool.submit(task)
        while pool.busy:
            for row in pool.rows():
                arrived(row)
