"""The report as a document: `gdr doctor --json`, schema gdrkit.report/1. Versioned, additive. PURE.

Every other form of the report — text, one line, metrics — is made from this one, so that none says more.
"""

from __future__ import annotations

from msgspec import Struct


class NodeSection(Struct, kw_only=True):
    hostname: str
    kernel: str
    source: str  # live, tree, bundle, sosreport, bug-report, ssh, rdma-topo, pasted
    scope: str  # host, container, or empty where that is not known


class VerdictSection(Struct, kw_only=True):
    state: str  # active, ready, blocked, impossible, unknown
    consumer: str  # the consumer that the state is about
    first_broken_layer: str | None
    best_fallback: str | None
    summary: str  # at most 80 characters


class ConsumerSection(Struct, kw_only=True):
    state: str
    path: str = ""  # the direct path that the state is about
    first_broken_layer: str | None = None
    best_fallback: str | None = None


class Ceiling(Struct, kw_only=True):
    low_gb_per_s: float
    high_gb_per_s: float
    tightest: str
    shared_with: list[str]


class PairSection(Struct, kw_only=True, omit_defaults=True):
    gpu: str  # PCI address
    device: str  # RDMA device
    distance: str  # PIX, PXB, PHB, NODE, SYS; empty where not known
    judgements: list[str]  # keys into `judgements`
    ceiling: Ceiling | None = None  # left out where nobody computed one


class JudgementSection(Struct, kw_only=True):
    path: str
    consumers: list[str]
    direction: str  # both, send, receive
    state: str
    blocked_by: list[str]  # codes, the lowest layer first
    missing: list[str]
    assumes: list[str]
    confidence: str  # certain, likely, assumed


class EvidenceSection(Struct, kw_only=True, omit_defaults=True):
    source: str
    locator: str = ""
    text: str = ""


class FindingSection(Struct, kw_only=True, omit_defaults=True):
    code: str
    layer: str
    status: str  # failed, warning, note, unknown, passed, not-applicable
    subject: str
    also: list[str] = []  # further subjects of which the same is unknown, for the same lack
    seen: str
    expected: str
    cost: str
    confidence: str
    evidence: list[EvidenceSection]
    remedies: list[str]
    references: list[str]


class ThenSection(Struct, kw_only=True):
    state: str
    blocked_by: list[str] = []


class ModprobeOutcome(Struct, kw_only=True):
    stderr: str


class ChainStep(Struct, kw_only=True):
    remedy: str
    effect: str
    then: ThenSection
    modprobe: ModprobeOutcome | None = None  # null where the step has no bearing on a module


class PlanStep(Struct, kw_only=True):
    remedy: str
    effect: str
    needs_root: bool
    needs_reboot: bool
    risk: str
    undo: str
    then: ThenSection


class PlanSection(Struct, kw_only=True):
    steps: list[PlanStep]


class ModprobeSection(Struct, kw_only=True):
    module: str
    exit_code: int | None  # null where the evidence does not tell
    loaded: bool | None
    stderr: str
    kernel_log: list[str]
    reason: str
    confidence: str
    assumes: list[str] = []  # modules whose init is taken to succeed, as nobody knows


class ProbeSection(Struct, kw_only=True):
    call: str
    argument: str
    subject: str
    returned: str
    errno: int


class MeasurementSection(Struct, kw_only=True):
    name: str
    value: float
    unit: str


class Report(Struct, kw_only=True):
    """All that `gdr doctor` has to say of a node."""

    schema: str = "gdrkit.report/1"
    node: NodeSection
    verdict: VerdictSection
    consumers: dict[str, ConsumerSection]
    pairs: list[PairSection]
    judgements: dict[str, JudgementSection]
    findings: list[FindingSection]
    what_then: list[list[ChainStep]]
    plan: list[PlanSection]
    modprobe: ModprobeSection | None
    probes: list[ProbeSection]
    measurements: list[MeasurementSection]
