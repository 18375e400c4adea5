"""The actions of a step, as data: shown first, then journaled, then executed.

Paths are absolute, as on the machine itself.
"""

from __future__ import annotations

from msgspec import Struct


class WriteFile(Struct, frozen=True, kw_only=True, tag="write", omit_defaults=True):
    """Write a file. An existing file keeps its owner, mode and extended attributes."""

    path: str
    content: str
    why: str
    mode: int = 0o644  # of a new file
    was: str = ""  # SHA-256 in hex of the content that this was derived from; "" if none


class RemoveFile(Struct, frozen=True, kw_only=True, tag="remove", omit_defaults=True):
    """Remove a file. It is backed up first."""

    path: str
    why: str


class RunCommand(Struct, frozen=True, kw_only=True, tag="run", omit_defaults=True):
    """Run a command. It must succeed, unless `may_fail`."""

    argv: tuple[str, ...]
    why: str
    undo: tuple[tuple[str, ...], ...] = ()  # commands that undo it, in this order
    again: bool = False  # it generates files from others: undo runs it again, last
    touches: tuple[str, ...] = ()  # shell patterns of files that it writes; they are backed up
    in_root: tuple[str, ...] = ()  # the same for a tree at "{root}"; empty: runs only on the machine itself
    may_fail: bool = False  # a failure does not matter
    never_executed: bool = False  # taken from documentation; not tested yet


class MakeKey(Struct, frozen=True, kw_only=True, tag="make-key", omit_defaults=True):
    """Create a key pair for signing modules. An existing pair is used as it is."""

    key: str
    certificate: str
    why: str


class SignModules(Struct, frozen=True, kw_only=True, tag="sign", omit_defaults=True):
    """Sign modules with one key. Replaces existing signatures; compression stays the same."""

    paths: tuple[str, ...]
    key: str
    certificate: str
    why: str
    digest: str = "sha256"


class EnrolKey(Struct, frozen=True, kw_only=True, tag="enrol-key", omit_defaults=True):
    """Ask the firmware to trust a key. A person must confirm at the next boot."""

    certificate: str
    why: str


class AskPerson(Struct, frozen=True, kw_only=True, tag="ask-person", omit_defaults=True):
    """Something that only a person can do. `what` is what to do."""

    what: str
    commands: tuple[str, ...] = ()  # lines for a shell; gdrkit never runs them
    content: str = ""  # of a file that the person applies


Action = WriteFile | RemoveFile | RunCommand | MakeKey | SignModules | EnrolKey | AskPerson


class Procedure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The actions that carry out a step on one machine."""

    remedy: str
    platform: str  # debian, talos, gpu-operator, container, ...; "" if the distribution is not known
    actions: tuple[Action, ...] = ()

    @property
    def never_executed(self) -> bool:
        """Whether any of its commands comes from documentation and is not tested."""
        return any(isinstance(action, RunCommand) and action.never_executed for action in self.actions)

    @property
    def by_hand(self) -> bool:
        """Whether a person must do a part of it."""
        return any(isinstance(action, AskPerson) for action in self.actions)
