"""The document of `gdr fix --json`, schema gdrkit.fix/1. Versioned, additive.

An ActionSection is a readable form of an action of any kind: the line to type, the commands that undo it.
The action itself is in the journal. A StepSection is a remedy with the actions that it needs on this node.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.report.document import InitiatedSection, NodeSection, VerdictSection
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict.node_state import StepOutcome

ActionKind = Literal["write", "remove", "run", "make-key", "sign", "enrol-key", "ask-person"]
"""The tags of the actions in a procedure."""

Goal = Literal["verdict", "module", "steps"]
"""What to reach: the verdict ready, nvidia-peermem loading, or the named steps carried out."""


class ActionSection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One action of a step. Commands have `argv`, written files have `content`."""

    kind: ActionKind
    line: str  # a command line, with sudo, or a description
    why: str = ""
    argv: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()  # that a person runs in a shell
    path: str = ""
    content: str = ""
    undo: tuple[str, ...] = ()  # commands that undo it; files are restored from backups
    never_executed: bool = False  # taken from documentation; not tested yet
    remedies: tuple[RemedyName, ...] = ()  # that advice without a plan is about
    needs_reboot: bool = False  # of such advice: whether a reboot ends it


class StepSection(Struct, frozen=True, kw_only=True):
    """A step of a plan, with what it does on this node."""

    remedy: RemedyName
    title: str
    because: tuple[str, ...]  # "code: subject" of findings on this node
    effect: str
    risk: str
    undo: str
    platform: str  # debian, talos, gpu-operator, container, ...; empty if the distribution is not known
    needs_root: bool
    needs_reboot: bool
    never_executed: bool
    by_hand: bool
    actions: tuple[ActionSection, ...]
    then: StepOutcome | None = None  # the verdict after the step; null if not planned for a verdict
    initiated: dict[str, InitiatedSection] = {}  # by program, afterwards; empty if the step changes none


class FixPlan(Struct, frozen=True, kw_only=True):
    steps: tuple[StepSection, ...]


class FixReport(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.fix/1"):
    """What `gdr fix` would do on a node."""

    node: NodeSection
    verdict: VerdictSection
    aim: Goal
    plans: tuple[FixPlan, ...]  # shortest first; any one of them is enough
    by_hand: tuple[
        ActionSection, ...
    ]  # without a plan: what a person can do, or that there is nothing to do
    gains_nothing: str = ""  # why steps that were asked for by name bring no direct path; empty if they may
    ask: str = ""  # one sentence for the owner of the host; empty where the reader can do all that helps
    further: tuple[
        StepSection, ...
    ]  # steps outside the plans, for findings that slow the node down or will break it
