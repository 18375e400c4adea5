"""Carries out a run step by step: plans each step from the present state, and stops for a reboot."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator

from msgspec import Struct

from gdrkit.evidence import Host
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.repair.apply import store
from gdrkit.repair.apply.commands import with_programs
from gdrkit.repair.apply.errors import AlreadyRunning, ApplyError
from gdrkit.repair.apply.executor import Executor, Notify
from gdrkit.repair.apply.journal import (
    ActionFailed,
    Journal,
    RebootWanted,
    RunBegun,
    RunFinished,
    StepBegun,
    StepEnded,
    VerdictSnapshot,
    new_run,
    runs,
)
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import Procedure
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import remedy_of
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict.prediction import predicted

BOOT_ID = "/proc/sys/kernel/random/boot_id"
ConfirmStep = Callable[[int, Remedy, Procedure], bool]
TakeSnapshot = Callable[[Host, str], VerdictSnapshot]
"""Returns the verdict on a host for a consumer. Passed in, since this package does not judge."""


class RunOutcome(Struct, frozen=True):
    """How a run ended."""

    status: str  # finished, reboot, declined
    run: str
    before: VerdictSnapshot
    after: VerdictSnapshot | None = None


@contextlib.contextmanager
def exclusive_lock(root: RootFS) -> Iterator[None]:
    """Lock this root against other runs. Raises AlreadyRunning. A dead process holds no lock: flock(2)."""
    with store.folder(root, create=True) as home:
        fd = store.open_file(home, "lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning("another gdr fix is running", "wait for it to finish") from None
        yield
    finally:
        os.close(fd)


def host_of(root: RootFS) -> Host:
    """A new host for a root, without cached evidence."""
    return open_host(None if root.is_machine else root.path)


def unfinished_run(root: RootFS) -> Journal | None:
    """The journal of the run that a crash, a failure or a reboot interrupted; None if there is none.

    The caller closes it.
    """
    for run in reversed(runs(root)):
        journal = Journal(root, run)
        journal.open()
        if journal.is_begun and not journal.is_undone and (journal.is_undoing or not journal.is_finished):
            return journal
        journal.close()
    return None


def newest_not_undone(root: RootFS) -> Journal | None:
    """The journal of the newest run that is not undone; None if there is none. The caller closes it."""
    for run in reversed(runs(root)):
        journal = Journal(root, run)
        journal.open()
        if journal.is_begun and not journal.is_undone:
            return journal
        journal.close()
    return None


def begin_run(
    root: RootFS,
    steps: tuple[str, ...],
    choices: ProcedureChoices,
    consumer: str,
    version: str,
    take_snapshot: TakeSnapshot,
) -> Journal:
    """The journal of a new run. Raises ApplyError if another run is unfinished."""
    if (other := unfinished_run(root)) is not None:
        other.close()
        raise ApplyError(
            f"run {other.run} is not finished", "gdr fix --resume continues it, gdr fix --undo undoes it"
        )
    now = time.gmtime()
    before = take_snapshot(host_of(root), consumer)
    journal = new_run(root, time.strftime("%Y%m%d-%H%M%S", now))
    journal.open()
    journal.append(
        RunBegun(
            version=version,
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ", now),
            consumer=consumer,
            steps=steps,
            choices=choices,
            before=before,
        )
    )
    return journal


def remedy_named(name: str) -> Remedy:
    """The remedy with this name. Raises ApplyError if it is unknown."""
    if name not in list(RemedyName):
        raise ApplyError(f"unknown step: {name}", f"known steps: {', '.join(RemedyName)}")
    return remedy_of(name)


class Runner:
    """Carries out a run from its start, or continues it."""

    def __init__(
        self,
        journal: Journal,
        passwords: Passwords,
        notify: Notify,
        confirm: ConfirmStep,
        take_snapshot: TakeSnapshot,
    ) -> None:
        self.journal, self.root = journal, journal.root
        self.executor = Executor(journal, passwords, notify)
        self.confirm, self.take_snapshot = confirm, take_snapshot

    def run(self) -> RunOutcome:
        """Carry out every remaining step. Raises ApplyError if one fails; resuming tries it again."""
        if self.journal.is_undoing:
            raise ApplyError(f"undo of run {self.journal.run} has started", "gdr fix --undo completes it")
        begun = self.journal.begin
        waiting = self.journal.reboot
        if waiting is not None and waiting.boot_id and waiting.boot_id == self._boot_id():
            return RunOutcome("reboot", self.journal.run, begun.before)
        for number, name in enumerate(begun.steps):
            if self.journal.has_ended(number):
                continue
            remedy = remedy_named(name)
            if not self._carry_out(number, remedy):
                return RunOutcome("declined", self.journal.run, begun.before)
            if remedy.needs_reboot and self._reboot_is_due(remedy):
                self.journal.append(RebootWanted(step=number, boot_id=self._boot_id()))
                return RunOutcome("reboot", self.journal.run, begun.before)
        after = self.take_snapshot(host_of(self.root), begun.consumer)
        self.journal.append(RunFinished(after=after))
        return RunOutcome("finished", self.journal.run, begun.before, after)

    def _carry_out(self, number: int, remedy: Remedy) -> bool:
        """Carry out one step, planned from the machine's present state; False if the user declined it."""
        procedure = self.journal.procedure_for_step(number)
        if procedure is None:
            node = Node(host_of(self.root))
            procedure = with_programs(procedure_for(node, remedy, self.journal.begin.choices))
            if not self.confirm(number, remedy, procedure):
                return False
            self.journal.append(StepBegun(step=number, procedure=procedure))
        for index, action in enumerate(procedure.actions):
            try:
                self.executor.execute(number, index, action)
            except ApplyError as error:
                self.journal.append(
                    ActionFailed(step=number, action=index, why=str(error).partition("\n")[0])
                )
                raise
        self.journal.append(StepEnded(step=number))
        return True

    def _reboot_is_due(self, remedy: Remedy) -> bool:
        """Whether a remedy's reboot is needed: not if the firmware trusts the key already."""
        if not self.root.is_machine:
            return False
        if remedy.name != "sign-module":
            return True
        prediction = predicted(Node(host_of(self.root)))
        return prediction is None or not (prediction.loaded or prediction.result_unknown)

    def _boot_id(self) -> str:
        if not self.root.is_machine:
            return ""
        with open(BOOT_ID) as file:
            return file.read().strip()
