"""One action: what it may change is copied and written down, then it is done, then that is written down."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

from gdrkit.repair.apply.commands import run_command
from gdrkit.repair.apply.enrolment import enrol
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.journal import ActionDone, ActionIntent, Journal
from gdrkit.repair.apply.root_fs import FileState, RootFS
from gdrkit.repair.apply.secrets import Secrets
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

Say = Callable[[str], None]
PRIVATE, PUBLIC = 0o600, 0o644
_OF_CONTENT = ("security.ima", "security.evm")
"""Attributes that hold a hash of the content: on another content they would make it unreadable."""
_SPARE_BYTES = 64 << 20  # left free beside copies and new files


class Executor:
    """Takes the actions of one run."""

    def __init__(self, journal: Journal, secrets: Secrets, say: Say) -> None:
        self.journal, self.place, self.secrets, self.say = journal, journal.place, secrets, say

    def take(self, step: int, number: int, action: Action) -> None:
        """Take an action, or take it up again where a crash left it. Raises ApplyError."""
        if self.journal.done_of(step, number):
            return
        intent = self.journal.intent_of(step, number)
        if intent is None:
            intent = self._intend(step, number, action)
            self.journal.append(intent)
        for folder in intent.folders:
            private = isinstance(action, MakeKey)
            self.place.make_folder(folder, 0o700 if private and folder == intent.folders[-1] else 0o755)
        note = self._do(action, intent)
        after = {path: self.place.digest(path) for path in self._paths(action)}
        if isinstance(action, MakeKey):
            after = dict.fromkeys(after, "")
        self.journal.append(ActionDone(step=step, action=number, after=after, note=note))

    def _paths(self, action: Action) -> tuple[str, ...]:
        match action:
            case WriteFile() | RemoveFile():
                return (action.path,)
            case SignModules():
                return action.paths
            case MakeKey():
                return (action.key, action.certificate)
            case RunCommand():
                return tuple(dict.fromkeys(path for p in action.touches for path in self.place.matching(p)))
        return ()

    def _intend(self, step: int, number: int, action: Action) -> ActionIntent:
        """What stands there now, with copies on disk; of private keys no copy is made."""
        states = [self.place.state(path) for path in self._paths(action)]
        self._check(action, states)
        if not isinstance(action, MakeKey):
            self._make_room(states)
            states = [
                self.journal.keep(state, f"{step:02d}-{number:02d}-{i:03d}")
                for i, state in enumerate(states)
            ]
            self.journal.sync_copies()
        folders = [f for path in self._paths(action) for f in self.place.missing_folders(path)]
        return ActionIntent(
            step=step, action=number, folders=tuple(dict.fromkeys(folders)), states=tuple(states)
        )

    def _check(self, action: Action, states: list[FileState]) -> None:
        if (
            isinstance(action, WriteFile)
            and action.was
            and hashlib.sha256(self.place.content(action.path)).hexdigest() != action.was
        ):
            raise ApplyError(f"{action.path} is not what the plan was made from", "run gdr fix again")
        if isinstance(action, MakeKey) and (states[0].kind == "absent") != (states[1].kind == "absent"):
            there = action.certificate if states[0].kind == "absent" else action.key
            raise ApplyError(f"{there} is there without its other half", "move it away and resume")
        if isinstance(action, SignModules):
            for state in states:
                if state.kind != "file":
                    raise ApplyError(f"{state.path} is not a file", "run gdr fix again")

    def _make_room(self, states: list[FileState]) -> None:
        sizes = {s.path: os.path.getsize(self.place.real(s.path)) for s in states if s.kind == "file"}
        needed = 2 * sum(sizes.values()) + _SPARE_BYTES
        for path in ("/var/lib/gdrkit/fix", *(path for path in sizes)):
            folder = path if path == "/var/lib/gdrkit/fix" else path.rpartition("/")[0]
            if sizes and self.place.free_bytes(folder) < needed:
                raise ApplyError(f"{folder} has less than {needed >> 20} MiB free", "make room and resume")

    # -- what each action is ------------------------------------------------------------------------------

    def _do(self, action: Action, intent: ActionIntent) -> str:
        """Do it; doing it twice is as good as once. Returns what was left out, and why."""
        match action:
            case WriteFile():
                self._write(action.path, action.content.encode(), intent.states[0], action.mode)
            case RemoveFile():
                self.place.remove(action.path)
            case MakeKey():
                return self._make_key(action, intent)
            case SignModules():
                self._sign(action, intent)
            case EnrolKey():
                return enrol(self.place, action, self.secrets, self.say)
            case RunCommand():
                return run_command(self.place, action.argv, action.in_root, may_fail=action.may_fail)
            case AskPerson():
                self.say(f"to do by hand: {action.what}")
                return "by hand"
        return ""

    def _write(self, path: str, content: bytes, before: FileState, mode: int) -> None:
        if before.kind == "file":
            kept = {name: value for name, value in before.attributes.items() if name not in _OF_CONTENT}
            like = FileState(path=path, mode=before.mode, uid=before.uid, gid=before.gid, attributes=kept)
        else:
            like = FileState(path=path, mode=mode, uid=os.geteuid(), gid=os.getegid())
        self.place.write(path, content, like, self.journal.run)

    def _make_key(self, action: MakeKey, intent: ActionIntent) -> str:
        """Both files or neither: the certificate comes last, and its being there says that all is well."""
        key, certificate = intent.states
        if certificate.kind == "file" and key.kind == "file":
            return "the key is there already"
        private, public = make_pair(self.secrets.key_password)
        self._write(action.key, private, FileState(path=action.key), PRIVATE)
        self._write(action.certificate, public, FileState(path=action.certificate), PUBLIC)
        return ""

    def _sign(self, action: SignModules, intent: ActionIntent) -> None:
        """Each module from its copy, so that a second time makes nothing else than the first."""
        who = signer(
            read_key(self.place, action.key), self.place.read(action.certificate), self.secrets.key_password
        )
        for state in intent.states:
            content = self.journal.kept(state)
            try:
                new = signed(content, who, action.digest)
            except ApplyError as error:
                raise ApplyError(f"{state.path}: {error}", error.hint) from None
            if hashlib.sha256(new).hexdigest() != self.place.digest(state.path):
                self._write(state.path, new, state, state.mode)
                if self.place.read(state.path) != new:
                    raise ApplyError(f"{state.path} does not hold what was written")
            self.say(f"signed {state.path}")


def read_key(place: RootFS, path: str) -> bytes:
    """A private key's file. Raises ApplyError if others than its owner can read it."""
    real = place.real(path)
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        raise ApplyError(f"there is no key {path}") from None
    if mode & 0o077:
        raise ApplyError(f"others than its owner can read {path}", f"chmod 600 {path}")
    return place.read(path)
