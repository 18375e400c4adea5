"""The report as a document: `gdr doctor --json`, schema gdrkit.report/1. Versioned, additive.

Every other form of the report — text, one line, metrics — is made from this one, so that none says more.
The published schema follows from these types.

What is judged is written as it is (findings, calls of probes), but where the document tells another thing:
a ConsumerSection leaves out the judgements and pairs of a state, which stand elsewhere in it; one
JudgementSection stands for all programs and pairs of which it holds; a ChainStep and a PlanStep are two
sides of a step, the first with what modprobe says, the second with what the step costs; a
ModprobeSection has null for what the prediction could only guess.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gdrkit.consumers.consumer import Direction, Fallback, Path
from gdrkit.consumers.names import NAMES
from gdrkit.evidence import Confidence
from gdrkit.facts.probe import ProbeCall
from gdrkit.repair.remedies.plan import StepOutcome
from gdrkit.rules import Code
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Layer
from gdrkit.verdict.findings import Finding
from gdrkit.verdict.path_state import State

ConsumerName = Annotated[str, Meta(extra_json_schema={"enum": sorted(NAMES)})]


class NodeSection(Struct, frozen=True, kw_only=True):
    hostname: str
    kernel: str
    source: str  # live, tree, bundle, sosreport, bug-report, ssh, rdma-topo, pasted
    scope: str  # host, container, or empty where that is not known


class VerdictSection(Struct, frozen=True, kw_only=True):
    state: State
    consumer: ConsumerName  # that the state is about
    first_broken_layer: Layer | None
    best_fallback: Fallback | None
    summary: Annotated[str, Meta(max_length=80)]


class ConsumerSection(Struct, frozen=True, kw_only=True):
    state: State
    path: str = ""  # the direct path that the state is about
    first_broken_layer: Layer | None = None
    best_fallback: Fallback | None = None


class Ceiling(Struct, frozen=True, kw_only=True):
    low_gb_per_s: float
    high_gb_per_s: float
    tightest: str
    shared_with: tuple[str, ...]


class PairSection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    gpu: str  # PCI address
    device: str  # RDMA device
    distance: str  # PIX, PXB, PHB, NODE, SYS; empty where not known
    judgements: tuple[str, ...]  # keys into `judgements`
    ceiling: Ceiling | None = None  # left out where nobody computed one


class JudgementSection(Struct, frozen=True, kw_only=True):
    path: Path
    consumers: tuple[ConsumerName, ...]
    direction: Direction
    state: State
    blocked_by: tuple[Code, ...]  # the lowest layer first
    missing: tuple[str, ...]
    assumes: tuple[str, ...]
    confidence: Confidence


class ModprobeOutcome(Struct, frozen=True, kw_only=True):
    stderr: str


class ChainStep(Struct, frozen=True, kw_only=True):
    remedy: RemedyName
    effect: str
    then: StepOutcome
    modprobe: ModprobeOutcome | None = None  # null where the step has no bearing on a module


class PlanStep(Struct, frozen=True, kw_only=True):
    remedy: RemedyName
    effect: str
    needs_root: bool
    needs_reboot: bool
    risk: str
    undo: str
    then: StepOutcome


class PlanSection(Struct, frozen=True, kw_only=True):
    steps: tuple[PlanStep, ...]


class ModprobeSection(Struct, frozen=True, kw_only=True):
    """A prediction as far as the evidence tells it; `gdr modprobe --json` is this alone."""

    module: str
    exit_code: int | None  # null where the evidence does not tell
    loaded: bool | None
    stderr: str
    kernel_log: tuple[str, ...]
    reason: str  # the code of what stops it; empty if nothing does
    confidence: Confidence
    assumes: tuple[str, ...] = ()  # modules whose init is taken to succeed, as nobody knows


class MeasurementSection(Struct, frozen=True, kw_only=True):
    name: str
    value: float
    unit: str


class Report(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.report/1"):
    """All that `gdr doctor` has to say of a node."""

    node: NodeSection
    verdict: VerdictSection
    consumers: dict[ConsumerName, ConsumerSection]
    pairs: tuple[PairSection, ...]
    judgements: dict[str, JudgementSection]
    findings: tuple[Finding, ...]
    what_then: tuple[tuple[ChainStep, ...], ...]
    plan: tuple[PlanSection, ...]
    modprobe: ModprobeSection | None
    probes: tuple[ProbeCall, ...]
    measurements: tuple[MeasurementSection, ...]
