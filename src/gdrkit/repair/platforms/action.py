"""What a step does to a machine, as data: shown first, written into a journal, then done.

Paths are absolute, as on the machine itself.
"""

from __future__ import annotations

from msgspec import Struct


class WriteFile(Struct, frozen=True, kw_only=True, tag="write", omit_defaults=True):
    """A file gets this content. An existing file keeps its owner, mode and extended attributes."""

    path: str
    content: str
    why: str
    mode: int = 0o644  # of a file that is not there yet
    was: str = ""  # SHA-256 in hex of the content that this one was made from; "" if it does not matter


class RemoveFile(Struct, frozen=True, kw_only=True, tag="remove", omit_defaults=True):
    """A file goes. It is kept, to be put back."""

    path: str
    why: str


class RunCommand(Struct, frozen=True, kw_only=True, tag="run", omit_defaults=True):
    """A command that must succeed."""

    argv: tuple[str, ...]
    why: str
    undo: tuple[tuple[str, ...], ...] = ()  # commands that take it back, in this order
    again: bool = False  # it makes files from others: to take it back, it runs once more at the end
    touches: tuple[str, ...] = ()  # shell patterns of files that it writes, to be kept and put back
    in_root: tuple[str, ...] = ()  # the same for a tree at "{root}"; empty: only on the machine itself
    may_fail: bool = False  # it tidies up what may be tidy already
    never_executed: bool = False  # generated from documentation; nobody has run it for gdrkit yet


class MakeKey(Struct, frozen=True, kw_only=True, tag="make-key", omit_defaults=True):
    """A key pair for signing modules. A pair that is there already is used as it is."""

    key: str
    certificate: str
    why: str


class SignModules(Struct, frozen=True, kw_only=True, tag="sign", omit_defaults=True):
    """Modules get a signature by one key in place of any they have, and are packed as they were."""

    paths: tuple[str, ...]
    key: str
    certificate: str
    why: str
    digest: str = "sha256"


class EnrolKey(Struct, frozen=True, kw_only=True, tag="enrol-key", omit_defaults=True):
    """The firmware is asked to trust a key; a person must agree at the next boot."""

    certificate: str
    why: str


class AskPerson(Struct, frozen=True, kw_only=True, tag="ask-person", omit_defaults=True):
    """Something that no program can do here. It says what must become true."""

    what: str


Action = WriteFile | RemoveFile | RunCommand | MakeKey | SignModules | EnrolKey | AskPerson


class Procedure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a step is carried out on one machine."""

    remedy: str
    platform: str  # debian, rhel, suse; "" where the distribution is not known
    actions: tuple[Action, ...] = ()

    @property
    def never_executed(self) -> bool:
        """Whether nobody has run all of it for gdrkit: it is made from documentation."""
        return any(isinstance(action, RunCommand) and action.never_executed for action in self.actions)

    @property
    def by_hand(self) -> bool:
        """Whether it holds something that a person must do."""
        return any(isinstance(action, AskPerson) for action in self.actions)
