"""The document of `gdr doctor --json`, schema gdrkit.report/1. Versioned; it grows by additions only.

The text and the one-line form are made from this document, and contain nothing else. The
published schema is generated from these types.

Findings and probe calls are written unchanged. The other sections differ from the internal types: a
ConsumerSection leaves out judgements and pairs, which have sections of their own; one JudgementSection
covers all consumers and pairs that share it; a step is a ChainStep with the output of modprobe, or a
PlanStep with its risk and undo; a ModprobeSection has null for results that cannot be predicted.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gdrkit.catalogue import Code
from gdrkit.evidence import Confidence
from gdrkit.facts.probe import ProbeCall
from gdrkit.programs.names import NAMES
from gdrkit.rules.capabilities import Direction, Fallback, Path
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Layer
from gdrkit.verdict.findings import Finding
from gdrkit.verdict.initiated import InitiatedBy
from gdrkit.verdict.node_state import StepOutcome
from gdrkit.verdict.path_state import State

ConsumerName = Annotated[str, Meta(extra_json_schema={"enum": sorted(NAMES)})]

Met = Literal["yes", "no", "unknown"]


class NodeSection(Struct, frozen=True, kw_only=True):
    hostname: str
    kernel: str
    source: str  # live, tree, bundle, sosreport, bug-report, ssh, rdma-topo, pasted
    scope: str  # host, container; empty if unknown
    platform: str = ""  # container, gpu-operator, talos, debian, ...: who changes what; empty if unknown
    collected: str = ""  # when, in UTC, as 2026-11-22T23:31:05Z; empty if the evidence does not show it


class VerdictSection(Struct, frozen=True, kw_only=True):
    state: State
    consumer: ConsumerName  # whose state this is
    first_broken_layer: Layer | None
    cause: Code | None  # of the problem to solve first; null unless blocked or impossible
    best_fallback: Fallback | None
    summary: Annotated[str, Meta(max_length=80)]


class InitiatedSection(Struct, frozen=True, kw_only=True):
    """Whether a GPU kernel of the program can start transfers itself."""

    name: str  # as the program calls it, such as IBGDA
    by: InitiatedBy  # who rings the NIC's doorbell; none: the program cannot do it here
    codes: tuple[Code, ...]  # why it is not the GPU, or what is not known


class ConsumerSection(Struct, frozen=True, kw_only=True):
    state: State
    path: str = ""  # the direct path with this state
    first_broken_layer: Layer | None = None
    best_fallback: Fallback | None = None
    installed: bool | None = None  # whether a copy was found; null if that is not known
    running: bool | None = None  # whether a process maps its libraries; null if that is not known
    without: str = ""  # what it does where no direct path is open
    initiated: InitiatedSection | None = None  # null for a program that does not do it


class GpuSection(Struct, frozen=True, kw_only=True):
    """One GPU at the NIC that is its own, for the program that the verdict is about."""

    gpu: str  # PCI address
    device: str  # RDMA device; empty if there is none
    path: str  # the direct path with this state; empty for a GPU that does not count
    state: State
    blocked_by: tuple[Code, ...]  # the lowest layer first
    counts: bool  # false for a GPU that never can, where others can


class Ceiling(Struct, frozen=True, kw_only=True):
    low_gb_per_s: float
    high_gb_per_s: float
    tightest: str
    shared_with: tuple[str, ...]


class PortSection(Struct, frozen=True, kw_only=True):
    """One port of an RDMA device, as the kernel shows it."""

    device: str  # RDMA device
    port: int | None  # its number; null if the evidence does not show it
    state: str  # ACTIVE, DOWN; empty if unknown
    phys_state: str  # LinkUp, Polling, Disabled; empty if unknown
    rate_gbit_per_s: float | None
    link_layer: str  # InfiniBand, Ethernet; empty if unknown
    netdev: str  # network interface; empty if it has none
    rail: int | None  # null for a port that is nearest to no GPU, and where all GPUs share the nearest


class PairSection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    gpu: str  # PCI address
    device: str  # RDMA device
    distance: str  # PIX, PXB, PHB, NODE, SYS; empty if unknown
    judgements: tuple[str, ...]  # keys into `judgements`
    ceiling: Ceiling | None = None  # left out if it was not computed


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
    loaded: bool | None = None  # null if the result is not known


class ChainStep(Struct, frozen=True, kw_only=True):
    remedy: RemedyName
    effect: str
    then: StepOutcome
    modprobe: ModprobeOutcome | None = None  # null if the step does not affect a module


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
    """What modprobe would do; also the document of `gdr modprobe --json`."""

    module: str
    exit_code: int | None  # null if the evidence does not show it
    loaded: bool | None
    stderr: str
    kernel_log: tuple[str, ...]
    reason: str  # the code of the problem that stops it; empty if there is none
    confidence: Confidence
    assumes: tuple[str, ...] = ()  # modules whose init function is assumed to succeed
    unless: tuple[Code, ...] = ()  # of checks that could not be made, and that may stop it first


class ExpectationSection(Struct, frozen=True, kw_only=True):
    """Whether the node has what the user expects: `gdr doctor --expect`."""

    file: str
    met: Met
    differs: tuple[Code, ...]  # the codes of the findings about it


class NextBootSection(Struct, frozen=True, kw_only=True):
    """The verdict after the next boot, for the same program, of a node that is ready now."""

    state: State  # unknown changes neither the verdict nor the exit code
    kernel: str  # the release that boots; empty if unknown
    cause: Code | None  # null unless blocked or impossible
    seen: str  # what the boot will find; of an unknown state, the evidence that is missing
    remedies: tuple[RemedyName, ...]  # to be taken before the boot; empty if none is known
    commands: tuple[str, ...]  # the same, where they are for a kernel that does not run yet
    confidence: Confidence
    advice: str = ""  # the same in words, where no remedy and no command does it


class MeasurementSection(Struct, frozen=True, kw_only=True):
    name: str
    value: float
    unit: str


class ProcessInUse(Struct, frozen=True, kw_only=True):
    """A process that is seen to use a direct path; `gdr ps` shows all of them, and the evidence."""

    pid: int
    name: str
    job: str  # such as `slurm 4711.0`; empty if it belongs to none
    devices: tuple[str, ...]  # RDMA devices
    path: str  # dmabuf or peermem; empty if the evidence does not show which
    confidence: Confidence
    because: str


class Report(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.report/1"):
    """The complete result of `gdr doctor` for one node."""

    node: NodeSection  # what was judged
    verdict: VerdictSection  # of one program, nccl unless --consumer names another
    consumers: dict[ConsumerName, ConsumerSection]  # the verdict of each program
    gpus: tuple[GpuSection, ...]  # each at the NIC that is its own, in the order of nvidia-smi
    pairs: tuple[PairSection, ...]  # every GPU with every NIC
    ports: tuple[PortSection, ...]  # every port with its rail, as in gdr topo; empty except in gdr doctor
    judgements: dict[str, JudgementSection]  # those that `pairs` name
    findings: tuple[Finding, ...]  # what was seen that differs from what is expected, or what is not known
    what_then: tuple[tuple[ChainStep, ...], ...]  # where the obvious fix of each failure leads
    plan: tuple[PlanSection, ...]  # those that end in ready, the shortest first
    modprobe: ModprobeSection | None  # what loading nvidia-peermem would do; null where nothing is predicted
    probes: tuple[ProbeCall, ...]  # answers of the drivers, with --probe
    measurements: tuple[MeasurementSection, ...]  # reserved, and empty
    expectation: ExpectationSection | None  # null without --expect
    next_boot: NextBootSection | None  # null unless the verdict is ready or active
    in_use: tuple[ProcessInUse, ...]  # processes on a direct path; empty also if none is visible
    ask: str = ""  # one sentence for the owner of the host; empty where the reader can do all that helps
