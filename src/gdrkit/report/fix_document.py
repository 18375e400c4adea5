"""A plan as a document: `gdr fix --json`, schema gdrkit.fix/1. Versioned, additive. PURE."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.report.document import NodeSection, ThenSection, VerdictSection


class ActionSection(Struct, kw_only=True, omit_defaults=True):
    """One thing that a step does. `argv` is there for commands, `content` for files that are written."""

    kind: str  # write, remove, run, make-key, sign, enrol-key, ask-person
    line: str  # in words, or as somebody would type it
    why: str = ""
    argv: list[str] = []
    path: str = ""
    content: str = ""
    undo: list[str] = []  # commands that take it back; files are put back from copies
    never_executed: bool = False  # nobody has run it for gdrkit yet


class StepSection(Struct, kw_only=True):
    """A step of a way, with what it does on this machine."""

    remedy: str
    title: str
    because: list[str]  # codes and subjects on this node
    effect: str
    risk: str
    undo: str
    platform: str  # debian, rhel, suse; empty where no command is known for the distribution
    needs_root: bool
    needs_reboot: bool
    never_executed: bool
    by_hand: bool
    actions: list[ActionSection]
    then: ThenSection | None = None  # what the verdict becomes; null for steps outside a plan


class WaySection(Struct, kw_only=True):
    steps: list[StepSection]


class FixReport(Struct, kw_only=True):
    """All that `gdr fix` has to say of a node before anything is done."""

    schema: str = "gdrkit.fix/1"
    node: NodeSection
    verdict: VerdictSection
    aim: str  # verdict, module or steps: what the ways lead to
    ways: list[WaySection]  # the shortest first; any one of them is enough
    further: list[StepSection]  # steps that mend what slows down or will break, and are in no way
