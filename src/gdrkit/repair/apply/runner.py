"""A run from its first step to its last: planned anew before each, stopped where a reboot is due."""

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
from gdrkit.repair.apply.errors import AlreadyRunning, ApplyError
from gdrkit.repair.apply.executor import Executor, Say
from gdrkit.repair.apply.journal import (
    HOME,
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
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.apply.secrets import Secrets
from gdrkit.repair.platforms.action import Procedure
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure
from gdrkit.repair.remedies import BY_NAME
from gdrkit.repair.remedies.plan import predicted
from gdrkit.repair.remedies.remedy import Remedy

BOOT_ID = "/proc/sys/kernel/random/boot_id"
Confirm = Callable[[int, Remedy, Procedure], bool]
TakeSnapshot = Callable[[Host, str], VerdictSnapshot]
"""The verdict on a host for a consumer: judging is not this package's business."""


class RunOutcome(Struct, frozen=True):
    """How far a run came: finished, reboot, declined."""

    word: str
    run: str
    before: VerdictSnapshot
    after: VerdictSnapshot | None = None


@contextlib.contextmanager
def alone(place: RootFS) -> Iterator[None]:
    """Nobody else fixes this place meanwhile. Raises Busy. A dead process holds no lock: flock(2)."""
    for folder in place.missing_folders(f"{HOME}/lock"):
        place.make_folder(folder, 0o700 if folder == HOME else 0o755)
    fd = os.open(place.real(f"{HOME}/lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning("another gdr fix is at work here", "wait for it to end") from None
        yield
    finally:
        os.close(fd)


def host_of(place: RootFS) -> Host:
    """The evidence of a place as it is now; nothing is remembered from before."""
    return open_host(None if place.is_machine else place.root)


def unfinished(place: RootFS) -> Journal | None:
    """The run that a crash, a failure or a reboot left open; None if there is none. The caller closes it."""
    for run in reversed(runs(place)):
        journal = Journal(place, run)
        journal.open()
        if journal.is_begun and not journal.is_undone and (journal.is_undoing or not journal.is_finished):
            return journal
        journal.close()
    return None


def last_standing(place: RootFS) -> Journal | None:
    """The newest run that has not been taken back; None if there is none. The caller closes it."""
    for run in reversed(runs(place)):
        journal = Journal(place, run)
        journal.open()
        if journal.is_begun and not journal.is_undone:
            return journal
        journal.close()
    return None


def begin(
    place: RootFS,
    steps: tuple[str, ...],
    choices: ProcedureChoices,
    consumer: str,
    version: str,
    witness: TakeSnapshot,
) -> Journal:
    """A new run. Raises ApplyError where another one is open."""
    if (other := unfinished(place)) is not None:
        other.close()
        raise ApplyError(
            f"the run {other.run} is not finished", "gdr fix --resume goes on, gdr fix --undo takes it back"
        )
    now = time.gmtime()
    before = witness(host_of(place), consumer)
    journal = new_run(place, time.strftime("%Y%m%d-%H%M%S", now))
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
    """The step of that name. Raises ApplyError, which names those that there are."""
    if name not in BY_NAME:
        raise ApplyError(f"there is no step {name}", f"there are {', '.join(BY_NAME)}")
    return BY_NAME[name]


class Runner:
    """Carries out a run, from wherever it stands."""

    def __init__(
        self, journal: Journal, secrets: Secrets, say: Say, confirm: Confirm, witness: TakeSnapshot
    ) -> None:
        self.journal, self.place = journal, journal.place
        self.doer = Executor(journal, secrets, say)
        self.say, self.confirm, self.witness = say, confirm, witness

    def go(self) -> RunOutcome:
        """Take every step that is left. Raises ApplyError at one that fails; to resume tries it again."""
        if self.journal.is_undoing:
            raise ApplyError(f"the run {self.journal.run} is being taken back", "gdr fix --undo goes on")
        told = self.journal.begin
        waiting = self.journal.reboot
        if waiting is not None and waiting.boot_id and waiting.boot_id == self._boot_id():
            return RunOutcome("reboot", self.journal.run, told.before)
        for number, name in enumerate(told.steps):
            if self.journal.has_ended(number):
                continue
            remedy = remedy_named(name)
            if not self._take(number, remedy):
                return RunOutcome("declined", self.journal.run, told.before)
            if remedy.needs_reboot and self._reboot_is_due(remedy):
                self.journal.append(RebootWanted(step=number, boot_id=self._boot_id()))
                return RunOutcome("reboot", self.journal.run, told.before)
        after = self.witness(host_of(self.place), told.consumer)
        self.journal.append(RunFinished(after=after))
        return RunOutcome("finished", self.journal.run, told.before, after)

    def _take(self, number: int, remedy: Remedy) -> bool:
        """One step; False if somebody declined it. It is planned from what the machine is now."""
        how = self.journal.procedure_of(number)
        if how is None:
            node = Node(host_of(self.place))
            choices, replaces = self.journal.begin.choices, remedy.replaces_driver
            how = procedure(node, remedy.name, remedy.becomes, choices, replaces_driver=replaces)
            if not self.confirm(number, remedy, how):
                return False
            self.journal.append(StepBegun(step=number, procedure=how))
        for index, action in enumerate(how.actions):
            try:
                self.doer.take(number, index, action)
            except ApplyError as error:
                self.journal.append(
                    ActionFailed(step=number, action=index, why=str(error).partition("\n")[0])
                )
                raise
        self.journal.append(StepEnded(step=number))
        return True

    def _reboot_is_due(self, remedy: Remedy) -> bool:
        """A key that the firmware knows already needs none; all else that asks for one does."""
        if not self.place.is_machine:
            return False
        if remedy.name != "sign-module":
            return True
        prediction = predicted(Node(host_of(self.place)))
        return prediction is None or not (prediction.loaded or prediction.result_unknown)

    def _boot_id(self) -> str:
        if not self.place.is_machine:
            return ""
        with open(BOOT_ID) as file:
            return file.read().strip()
