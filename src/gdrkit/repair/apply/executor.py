"""Executes one action: back up, journal the intent, do it, journal the result."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable

from gdrkit.repair.apply.commands import run_command
from gdrkit.repair.apply.enrolment import enrol
from gdrkit.repair.apply.entries import FileState, free_bytes
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.journal import ActionDone, ActionIntent, Journal
from gdrkit.repair.apply.labels import relabel
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.apply.signing import make_pair, signed, signer
from gdrkit.repair.platforms.action import (
    Action,
    AskPerson,
    EnrolKey,
    MakeKey,
    RemoveFile,
    RunCommand,
    SignModules,
    WriteFile,
)
from gdrkit.repair.platforms.command_shapes import fault

Notify = Callable[[str], None]
PRIVATE, PUBLIC = 0o600, 0o644
_OF_CONTENT = ("security.ima", "security.evm")
"""Attributes that hold a hash of the content: copied to other content, they would make it unreadable."""
_SPARE_BYTES = 64 << 20  # to leave free besides backups and new files


class Executor:
    """Executes the actions of one run."""

    def __init__(self, journal: Journal, passwords: Passwords, notify: Notify) -> None:
        self.journal, self.root, self.passwords, self.notify = journal, journal.root, passwords, notify

    def execute(self, step: int, number: int, action: Action) -> None:
        """Execute an action, or continue one that a crash interrupted. Raises ApplyError."""
        if self.journal.done_of(step, number):
            return
        if why := fault(action):
            raise ApplyError(f"refused: {why}")
        intent = self.journal.intent_of(step, number)
        if intent is None:
            intent = self._intend(step, number, action)
            self.journal.append(intent)
        for folder in intent.folders:
            private = isinstance(action, MakeKey)
            self.root.make_folder(folder, 0o700 if private and folder == intent.folders[-1] else 0o755)
        note = self._do(action, intent) or self._relabel(action, intent)
        after = self._after(action)
        if isinstance(action, MakeKey):
            after = dict.fromkeys(after, "")
        self.journal.append(ActionDone(step=step, action=number, after=after, note=note))

    def _after(self, action: Action) -> dict[str, str]:
        """The digest of each path as this action left it."""
        known = outcome(action)
        return {path: self.root.digest(path) if known is None else known for path in self._paths(action)}

    def _relabel(self, action: Action, intent: ActionIntent) -> str:
        if not isinstance(action, WriteFile | MakeKey):
            return ""
        new = [state.path for state in intent.states if state.kind != "file"]
        return relabel(self.root, [*intent.folders, *new])

    def _paths(self, action: Action) -> tuple[str, ...]:
        match action:
            case WriteFile() | RemoveFile():
                return (action.path,)
            case SignModules():
                return action.paths
            case MakeKey():
                return (action.key, action.certificate)
            case RunCommand():
                return tuple(dict.fromkeys(path for p in action.touches for path in self.root.matching(p)))
        return ()

    def _intend(self, step: int, number: int, action: Action) -> ActionIntent:
        """The files' present states, backed up to disk. Private keys are not copied."""
        states = [self.root.state(path) for path in self._paths(action)]
        self._check(action, states)
        if not isinstance(action, MakeKey):
            self._check_free_space(states)
            states = [
                self.journal.back_up(state, f"{step:02d}-{number:02d}-{i:03d}")
                for i, state in enumerate(states)
            ]
            self.journal.sync_backups()
        folders = [f for path in self._paths(action) for f in self.root.missing_folders(path)]
        return ActionIntent(
            step=step, action=number, folders=tuple(dict.fromkeys(folders)), states=tuple(states)
        )

    def _check(self, action: Action, states: list[FileState]) -> None:
        if (
            isinstance(action, WriteFile)
            and action.was
            and hashlib.sha256(self.root.content(action.path)).hexdigest() != action.was
        ):
            raise ApplyError(f"{action.path} changed since the plan was made", "run gdr fix again")
        if isinstance(action, MakeKey) and (states[0].kind == "absent") != (states[1].kind == "absent"):
            found, missing = action.key, action.certificate
            if states[0].kind == "absent":
                found, missing = missing, found
            raise ApplyError(
                f"{found} exists, but {missing} does not", "move it away, then run gdr fix --resume"
            )
        if isinstance(action, SignModules):
            for state in states:
                if state.kind != "file":
                    raise ApplyError(f"{state.path} is not a file", "run gdr fix again")

    def _check_free_space(self, states: list[FileState]) -> None:
        sizes = {s.path: os.path.getsize(self.root.real(s.path)) for s in states if s.kind == "file"}
        needed = 2 * sum(sizes.values()) + _SPARE_BYTES
        for folder in (self.journal.folder, *(os.path.dirname(self.root.real(path)) for path in sizes)):
            if sizes and free_bytes(folder) < needed:
                raise ApplyError(
                    f"{folder} has less than {needed >> 20} MiB free",
                    "free some space, then run gdr fix --resume",
                )

    # -- the actions --------------------------------------------------------------------------------------

    def _do(self, action: Action, intent: ActionIntent) -> str:
        """Do it; doing it twice has the same effect as once. Returns a note on what was skipped, and why."""
        match action:
            case WriteFile():
                self._write(action.path, action.content.encode(), intent.states[0], action.mode)
            case RemoveFile():
                self.root.remove(action.path, intent.states[0])
            case MakeKey():
                return self._make_key(action, intent)
            case SignModules():
                self._sign(action, intent)
            case EnrolKey():
                return enrol(self.root, action, self.passwords, self.notify)
            case RunCommand():
                return run_command(self.root, action)
            case AskPerson():
                self.notify(f"do this by hand: {action.what}")
                for line in (*action.content.splitlines(), *action.commands):
                    self.notify(f"  {line}")
                return "by hand"
        return ""

    def _write(
        self, path: str, content: bytes, before: FileState, mode: int, *, again: bool = False
    ) -> None:
        """Replace what was there before; `again`: also what a crash left, which no journal has."""
        if before.kind == "file":
            kept = {name: value for name, value in before.attributes.items() if name not in _OF_CONTENT}
            like = FileState(path=path, mode=before.mode, uid=before.uid, gid=before.gid, attributes=kept)
        else:
            like = FileState(path=path, mode=mode, uid=os.geteuid(), gid=os.getegid())
        self.root.write(path, content, like, self.journal.run, None if again else before)

    def _make_key(self, action: MakeKey, intent: ActionIntent) -> str:
        """Write both files. The certificate is written last: if it exists, the key is complete."""
        if intent.states[1].kind != "absent":
            return "the key already exists"
        private, public = make_pair(self.passwords.key_password)
        self._write(action.key, private, FileState(path=action.key), PRIVATE, again=True)
        self._write(action.certificate, public, FileState(path=action.certificate), PUBLIC, again=True)
        return ""

    def _sign(self, action: SignModules, intent: ActionIntent) -> None:
        """Sign each module from its backup, so that repeating it gives the same result."""
        module_signer = signer(
            read_key(self.root, action.key),
            read_given(self.root, action.certificate, "certificate")[0],
            self.passwords.key_password,
        )
        for state in intent.states:
            content = self.journal.backup_of(state)
            try:
                new = signed(content, module_signer, action.digest)
            except ApplyError as error:
                raise ApplyError(f"{state.path}: {error}", error.hint) from None
            if hashlib.sha256(new).hexdigest() != self.root.digest(state.path):
                self._write(state.path, new, state, state.mode)
                if self.root.read(state.path) != new:
                    raise ApplyError(f"{state.path} does not contain what was written to it")
            self.notify(f"signed {state.path}")


def outcome(action: Action) -> str | None:
    """The digest of the file that an action writes, "" if it removes one; None where that is not known
    before."""
    match action:
        case WriteFile():
            return hashlib.sha256(action.content.encode()).hexdigest()
        case RemoveFile():
            return ""
    return None


def read_key(root: RootFS, path: str) -> bytes:
    """The content of a private key's file. Raises ApplyError if group or others have access to it."""
    content, mode = read_given(root, path, "key")
    if mode & 0o077:
        raise ApplyError(
            f"{path} is accessible to users other than its owner", f"chmod 600 {shlex.quote(path)}"
        )
    return content


def read_given(root: RootFS, path: str, what: str) -> tuple[bytes, int]:
    """Content and mode of a file that the user named. Raises ApplyError if it cannot be read."""
    try:
        with root.opened(root.resolved(path)) as file:
            return file.read(), os.fstat(file.fileno()).st_mode
    except FileNotFoundError:
        raise ApplyError(f"{what} not found: {path}", "give the path of an existing file") from None
    except OSError as error:
        raise ApplyError(f"{what} {path}: {(error.strerror or str(error)).lower()}") from None
