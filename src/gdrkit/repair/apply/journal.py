"""What a run meant to do and what it did: one JSON object a line, on disk before the change it speaks of.

A line without its end is one that a crash cut off: what it meant to say had not begun. No secret is ever in
it: of private keys it holds the path.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import FileState, RootFS, sync_folder
from gdrkit.repair.platforms.action import Procedure
from gdrkit.repair.platforms.choices import ProcedureChoices

HOME = "/var/lib/gdrkit/fix"
JOURNAL, BACKUPS = "journal.jsonl", "backups"


class VerdictSnapshot(Struct, frozen=True, kw_only=True):
    """The verdict on a machine, as far as it can be compared later."""

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
    """An action is about to be taken. Copies of what it may change lie in the backups already."""

    step: int
    action: int
    folders: tuple[str, ...] = ()  # to be made
    states: tuple[FileState, ...] = ()


class ActionDone(Struct, frozen=True, kw_only=True, tag="done"):
    step: int
    action: int
    after: Mapping[str, str] = {}  # path -> SHA-256; "" where nothing stands any more
    note: str = ""  # what was left out, and why


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
    intact: tuple[str, ...]  # files that commands wrote, and nobody since


class ActionUndone(Struct, frozen=True, kw_only=True, tag="undone"):
    step: int
    action: int


class UndoEnded(Struct, frozen=True, kw_only=True, tag="undo-ended"):
    kept: tuple[str, ...] = ()  # files that somebody else changed since, and that were left alone


JournalRecord = (
    RunBegun | StepBegun | ActionIntent | ActionDone | ActionFailed | StepEnded | RebootWanted | RunFinished
    | UndoBegun | ActionUndone | UndoEnded
)  # fmt: skip


def parse(content: bytes) -> list[JournalRecord]:
    """The records of a journal, without a last one that was cut off. Raises ApplyError if it is damaged."""
    decoder = msgspec.json.Decoder(JournalRecord)
    *lines, rest = content.split(b"\n")
    records: list[JournalRecord] = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(decoder.decode(line))
        except msgspec.MsgspecError:
            if number == len(lines) and not rest:  # written, and not on disk when the power went
                break
            raise ApplyError(f"line {number} of the journal is damaged") from None
    return records


def whole_bytes(content: bytes) -> int:
    """How much of a journal is whole: up to the end of the last record."""
    size = content.rfind(b"\n") + 1
    if size and len(parse(content[:size])) < content[:size].count(b"\n"):
        size = content.rfind(b"\n", 0, size - 1) + 1
    return size


class Journal:
    """One run's journal and copies, in a folder of its own, for root alone."""

    def __init__(self, place: RootFS, run: str) -> None:
        self.place, self.run = place, run
        self.folder = place.real(f"{HOME}/{run}")
        self.records: list[JournalRecord] = []
        self._fd = -1

    def open(self) -> None:
        """Read what there is, cut off what a crash left half written, and be ready to append."""
        path = f"{self.folder}/{JOURNAL}"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(path, "rb") as file:
            content = file.read()
        size = whole_bytes(content)
        self.records = parse(content[:size])
        if size < len(content):
            os.ftruncate(self._fd, size)
        os.fsync(self._fd)
        sync_folder(self.folder)

    def append(self, record: JournalRecord) -> None:
        """Write a record; it is on disk when this returns."""
        data = msgspec.json.encode(record) + b"\n"
        while data:
            data = data[os.write(self._fd, data) :]
        os.fsync(self._fd)
        self.records.append(record)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # -- copies -------------------------------------------------------------------------------------------

    def keep(self, state: FileState, name: str) -> FileState:
        """Copy a file's content into the run's folder; the state names the copy."""
        if state.kind != "file":
            return state
        source = self.place.real(state.path)
        target = f"{self.folder}/{BACKUPS}/{name}"
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(source, "rb") as file, open(fd, "wb") as copy:
            while chunk := file.read(1 << 20):
                copy.write(chunk)
            copy.flush()
            os.fsync(fd)
        return msgspec.structs.replace(state, backup=name)

    def kept(self, state: FileState) -> bytes:
        """The content of a copy. Raises ApplyError if it is not what was copied."""
        if not state.backup:
            return b""
        import hashlib

        with open(f"{self.folder}/{BACKUPS}/{state.backup}", "rb") as file:
            content = file.read()
        if hashlib.sha256(content).hexdigest() != state.digest:
            raise ApplyError(f"the copy of {state.path} is damaged ({self.folder}/{BACKUPS}/{state.backup})")
        return content

    def forget_copies(self) -> None:
        """Nobody needs them once all is as it was; what was left alone may be wanted still."""
        ended = [record for record in self.records if isinstance(record, UndoEnded)]
        if ended and not ended[-1].kept:
            shutil.rmtree(f"{self.folder}/{BACKUPS}", ignore_errors=True)

    def sync_copies(self) -> None:
        sync_folder(f"{self.folder}/{BACKUPS}")

    # -- what it says -------------------------------------------------------------------------------------

    @property
    def begin(self) -> RunBegun:
        if not self.records or not isinstance(self.records[0], RunBegun):
            raise ApplyError(f"the journal of {self.run} has no beginning")
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

    def procedure_of(self, step: int) -> Procedure | None:
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
        """The reboot that it waits for: the last thing that it said, if that was it."""
        last = self.records[-1] if self.records else None
        return last if isinstance(last, RebootWanted) else None


_RUN = re.compile(r"\d{8}-\d{6}-\d{2}")


def runs(place: RootFS) -> tuple[str, ...]:
    """The runs of a place, the oldest first."""
    home = place.real(f"{HOME}/x").rpartition("/")[0]
    try:
        names = os.listdir(home)
    except FileNotFoundError:
        return ()
    return tuple(sorted(name for name in names if _RUN.fullmatch(name)))


def new_run(place: RootFS, now: str) -> Journal:
    """A journal in a folder that nobody has used. `now` is the time, as YYYYmmdd-HHMMSS."""
    for folder in (*place.missing_folders(f"{HOME}/x"),):
        place.make_folder(folder, 0o700 if folder == HOME else 0o755)
    taken = runs(place)
    run = next(name for name in (f"{now}-{n:02d}" for n in range(100)) if name not in taken)
    place.make_folder(f"{HOME}/{run}", 0o700)
    place.make_folder(f"{HOME}/{run}/{BACKUPS}", 0o700)
    return Journal(place, run)
