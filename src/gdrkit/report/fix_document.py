"""A plan as a document: `gdr fix --json`, schema gdrkit.fix/1. Versioned, additive.

An ActionSection is not the action itself, which the journal keeps and the executor takes: a reader gets one
form for all kinds, with the line that somebody would type and what takes it back. A StepSection joins a
remedy with what it comes to on this machine.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.repair.remedies.plan import StepOutcome
from gdrkit.report.document import NodeSection, VerdictSection
from gdrkit.rules.remedy_names import RemedyName

ActionKind = Literal["write", "remove", "run", "make-key", "sign", "enrol-key", "ask-person"]
"""The tags of the actions that a procedure is made of."""

Aim = Literal["verdict", "module", "steps"]
"""What the ways lead to: a verdict that is ready, a nvidia-peermem that loads, the steps that were named."""


class ActionSection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that a step does. `argv` is there for commands, `content` for files that are written."""

    kind: ActionKind
    line: str  # in words, or as somebody would type it
    why: str = ""
    argv: tuple[str, ...] = ()
    path: str = ""
    content: str = ""
    undo: tuple[str, ...] = ()  # commands that take it back; files are put back from copies
    never_executed: bool = False  # nobody has run it for gdrkit yet


class StepSection(Struct, frozen=True, kw_only=True):
    """A step of a way, with what it does on this machine."""

    remedy: RemedyName
    title: str
    because: tuple[str, ...]  # codes and subjects on this node
    effect: str
    risk: str
    undo: str
    platform: str  # debian, rhel, suse; empty where no command is known for the distribution
    needs_root: bool
    needs_reboot: bool
    never_executed: bool
    by_hand: bool
    actions: tuple[ActionSection, ...]
    then: StepOutcome | None = None  # what the verdict becomes; null for steps outside a plan


class WaySection(Struct, frozen=True, kw_only=True):
    steps: tuple[StepSection, ...]


class FixReport(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.fix/1"):
    """All that `gdr fix` has to say of a node before anything is done."""

    node: NodeSection
    verdict: VerdictSection
    aim: Aim
    ways: tuple[WaySection, ...]  # the shortest first; any one of them is enough
    further: tuple[StepSection, ...]  # steps that mend what slows down or will break, and are in no way
