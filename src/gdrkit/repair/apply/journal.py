"""The journal of a run: one JSON object per line, on disk before the change that it records.

A last line without a newline was cut off by a crash, before its change began. A journal holds no secrets: of
private keys only the path.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from gdrkit.formats.regex import regex
from gdrkit.repair.apply import store
from gdrkit.repair.apply.entries import FileState
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import Procedure
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.command_shapes import is_plain

JOURNAL, BACKUPS = "journal.jsonl", "backups"


class VerdictSnapshot(Struct, frozen=True, kw_only=True):
    """The parts of a verdict that are compared after a run."""

    states: Mapping[str, str]  # by consumer
    findings: tuple[str, ...]  # "status code subject", sorted
    peermem: str  # what stops nvidia-peermem from loading; "" if nothing does


class RunBegun(Struct, frozen=True, kw_only=True, tag="begin"):
    version: str
    time: str
    consumer: str
    steps: tuple[str, ...]  # names of remedies
    choices: ProcedureChoices
    before: VerdictSnapshot


class StepBegun(Struct, frozen=True, kw_only=True, tag="step"):
    step: int
    procedure: Procedure


class ActionIntent(Struct, frozen=True, kw_only=True, tag="intent"):
    """An action is about to run. What it may change is already backed up."""

    step: int
    action: int
    folders: tuple[str, ...] = ()  # to create
    states: tuple[FileState, ...] = ()

    def __post_init__(self) -> None:
        if not all(map(is_plain, self.folders)):
            raise ValueError("a folder is not a plain path")


class ActionDone(Struct, frozen=True, kw_only=True, tag="done"):
    step: int
    action: int
    after: Mapping[str, str] = {}  # path -> SHA-256; "" if the file is gone
    note: str = ""  # what was skipped, and why


class ActionFailed(Struct, frozen=True, kw_only=True, tag="failed"):
    step: int
    action: int
    why: str


class StepEnded(Struct, frozen=True, kw_only=True, tag="step-ended"):
    step: int


class RebootWanted(Struct, frozen=True, kw_only=True, tag="reboot"):
    step: int
    boot_id: str


class RunFinished(Struct, frozen=True, kw_only=True, tag="finished"):
    after: VerdictSnapshot


class UndoBegun(Struct, frozen=True, kw_only=True, tag="undo"):
    intact: tuple[str, ...]  # files that commands wrote and that have not changed since


class ActionUndone(Struct, frozen=True, kw_only=True, tag="undone"):
    step: int
    action: int


class UndoEnded(Struct, frozen=True, kw_only=True, tag="undo-ended"):
    kept: tuple[str, ...] = ()  # files that changed since, and were left alone


JournalRecord = (
    RunBegun | StepBegun | ActionIntent | ActionDone | ActionFailed | StepEnded | RebootWanted | RunFinished
    | UndoBegun | ActionUndone | UndoEnded
)  # fmt: skip


def parse(content: bytes) -> list[JournalRecord]:
    """The records of a journal, without a truncated last one. Raises ApplyError if it is damaged."""
    decoder = msgspec.json.Decoder(JournalRecord)
    *lines, rest = content.split(b"\n")
    records: list[JournalRecord] = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if number < len(lines) or rest:  # else power failed before its blocks reached the disk
                raise ApplyError(f"line {number} of the journal is damaged: {error}") from None
    return records


def whole_bytes(content: bytes) -> int:
    """The size of a journal up to the end of its last complete record, in bytes."""
    size = content.rfind(b"\n") + 1
    if size and len(parse(content[:size])) < content[:size].count(b"\n"):
        size = content.rfind(b"\n", 0, size - 1) + 1
    return size


class Journal:
    """One run's journal and backups, in a folder of its own that only root can read."""

    def __init__(self, root: RootFS, run: str) -> None:
        self.root, self.run = root, run
        self.folder = posixpath.join(store.home(root), run)
        self.records: list[JournalRecord] = []
        self._fd = -1

    def read(self) -> None:
        """Read the records, and change nothing. A run without a journal has none."""
        with store.folder(self.root, self.run) as folder:
            try:
                fd = store.open_file(folder, JOURNAL, os.O_RDONLY)
            except FileNotFoundError:
                return
        with open(fd, "rb") as file:
            self._parse(file.read())

    def open(self) -> None:
        """Read the records, truncate a partial last line, and open the journal for appending."""
        with store.folder(self.root, self.run) as folder:
            self._fd = store.open_file(folder, JOURNAL, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            with open(self._fd, "rb", closefd=False) as file:
                content = file.read()
            size = self._parse(content)
            if size < len(content):
                os.ftruncate(self._fd, size)
            os.fsync(self._fd)
            store.sync(folder)

    def _parse(self, content: bytes) -> int:
        """The size of what is whole, in bytes."""
        try:
            size = whole_bytes(content)
            self.records = parse(content[:size])
        except ApplyError as error:
            self.close()
            raise ApplyError(f"{self.folder}: {error}", "move this folder away") from None
        return size

    def append(self, record: JournalRecord) -> None:
        """Write a record; it is on disk when this returns."""
        data = msgspec.json.encode(record) + b"\n"
        try:
            while data:
                data = data[os.write(self._fd, data) :]
            os.fsync(self._fd)
        except OSError as error:
            error.filename = posixpath.join(self.folder, JOURNAL)
            raise
        self.records.append(record)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # -- backups ------------------------------------------------------------------------------------------

    def back_up(self, state: FileState, name: str) -> FileState:
        """Back up a file's content; returns the state with the backup's name. Raises ApplyError if it is not
        the content of that state any more: what is written over it could never be undone."""
        if state.kind != "file":
            return state
        with store.folder(self.root, self.run, BACKUPS) as folder:
            fd = store.open_file(folder, name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with self.root.opened(state.path) as file, open(fd, "wb") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)
            copy.flush()
            os.fsync(fd)
        if self._digest_of(name) != state.digest:
            raise ApplyError(f"{state.path} changed while it was copied", "run gdr fix again")
        return msgspec.structs.replace(state, backup=name)

    def _digest_of(self, backup: str) -> str:
        import hashlib

        with store.folder(self.root, self.run, BACKUPS) as folder:
            fd = store.open_file(folder, backup, os.O_RDONLY)
        with open(fd, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def backup_of(self, state: FileState) -> bytes:
        """The content of a backup. Raises ApplyError if it is damaged."""
        if not state.backup:
            return b""
        import hashlib

        with store.folder(self.root, self.run, BACKUPS) as folder:
            fd = store.open_file(folder, state.backup, os.O_RDONLY)
        with open(fd, "rb") as file:
            content = file.read()
        if hashlib.sha256(content).hexdigest() != state.digest:
            raise ApplyError(
                f"the backup of {state.path} is damaged ({self.folder}/{BACKUPS}/{state.backup})"
            )
        return content

    def delete_backups(self) -> None:
        with store.folder(self.root, self.run) as folder:
            shutil.rmtree(BACKUPS, ignore_errors=True, dir_fd=folder)

    def sync_backups(self) -> None:
        with store.folder(self.root, self.run, BACKUPS) as folder:
            store.sync(folder)

    # -- the records --------------------------------------------------------------------------------------

    @property
    def begin(self) -> RunBegun:
        if not self.records or not isinstance(self.records[0], RunBegun):
            raise ApplyError(f"the journal of run {self.run} does not begin with a `begin` record")
        return self.records[0]

    @property
    def is_begun(self) -> bool:
        return bool(self.records)

    @property
    def is_undone(self) -> bool:
        return any(isinstance(record, UndoEnded) for record in self.records)

    @property
    def is_undoing(self) -> bool:
        return any(isinstance(record, UndoBegun) for record in self.records)

    @property
    def is_finished(self) -> bool:
        return any(isinstance(record, RunFinished) for record in self.records)

    def procedure_for_step(self, step: int) -> Procedure | None:
        found = [r.procedure for r in self.records if isinstance(r, StepBegun) and r.step == step]
        return found[-1] if found else None

    def intent_of(self, step: int, action: int) -> ActionIntent | None:
        found = [
            r for r in self.records if isinstance(r, ActionIntent) and (r.step, r.action) == (step, action)
        ]
        return found[-1] if found else None

    def done_of(self, step: int, action: int) -> ActionDone | None:
        found = [
            r for r in self.records if isinstance(r, ActionDone) and (r.step, r.action) == (step, action)
        ]
        return found[-1] if found else None

    def has_ended(self, step: int) -> bool:
        return any(isinstance(r, StepEnded) and r.step == step for r in self.records)

    @property
    def reboot(self) -> RebootWanted | None:
        """The reboot that the run waits for; None unless it is the last record."""
        last = self.records[-1] if self.records else None
        return last if isinstance(last, RebootWanted) else None


_RUN = regex(r"\d{8}-\d{6}-\d{2}", re.ASCII)


def runs(root: RootFS) -> tuple[str, ...]:
    """The names of all runs on a root, oldest first."""
    try:
        with store.folder(root) as home:
            names = os.listdir(home)
    except FileNotFoundError:
        return ()
    return tuple(sorted(name for name in names if _RUN.fullmatch(name)))


def _next_name(run: str) -> str:
    digits = f"{int(run.replace('-', '')) + 1:016d}"
    name = f"{digits[:8]}-{digits[8:14]}-{digits[14:]}"
    if not _RUN.fullmatch(name):
        raise ApplyError(f"no name comes after that of run {run}", "remove its folder")
    return name


def new_run(root: RootFS, now: str) -> Journal:
    """A journal in a new folder. `now` is the time, as YYYYmmdd-HHMMSS.

    Its name comes after those of all other runs, since the order of the names is that of the runs: after
    the hundredth run of a second, or where the clock was set back, the newest name is counted up. Raises
    ApplyError."""
    with store.folder(root, create=True):
        newest = runs(root)[-1:]
    run = max([f"{now}-00", *map(_next_name, newest)])
    for inside in ((run,), (run, BACKUPS)):
        with store.folder(root, *inside, create=True):
            pass
    return Journal(root, run)
