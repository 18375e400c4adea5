"""From a verdict to the document. PURE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gdrkit.evidence import Lacks, Source
from gdrkit.facts.kernel import hostname, release
from gdrkit.facts.probe import probe_calls
from gdrkit.facts.rdma import Pair, distance
from gdrkit.facts.virtual import scope
from gdrkit.loader import Prediction
from gdrkit.node import Fact, Node, Subject
from gdrkit.repair.remedies.plan import Chain
from gdrkit.report.document import (
    Ceiling,
    ChainStep,
    ConsumerSection,
    EvidenceSection,
    FindingSection,
    JudgementSection,
    ModprobeOutcome,
    ModprobeSection,
    NodeSection,
    PairSection,
    PlanSection,
    PlanStep,
    ProbeSection,
    Report,
    ThenSection,
    VerdictSection,
)
from gdrkit.report.summary import summary
from gdrkit.rules.rule import Failed, NotApplicable, Passed, Status, Unknown
from gdrkit.verdict import Assumption, Verdict
from gdrkit.verdict.findings import SILENT, Finding
from gdrkit.verdict.judgement import Judgement
from gdrkit.verdict.node_state import ConsumerState

Ceilings = Callable[[Node], Mapping[tuple[str, str], Ceiling]]
"""What each pair can move at most, by GPU and RDMA device."""

EVIDENCE_SHOWN = 12
EVIDENCE_SHOWN_OF_UNKNOWN = 3
"""Sources listed under one finding: the places first, so that 8 GPUs x 12 NICs stay under 60 KB. What is
unknown names the source that it lacks; what was read on the way there tells little."""


def build(
    node: Node,
    verdict: Verdict,
    consumer: str,
    chains: Iterable[Chain],
    plans: Iterable[Chain],
    prediction: Prediction | None,
    ceilings: Ceilings | None = None,
) -> Report:
    """The document of a node. `consumer` is the one whose state comes first; without `ceilings`, pairs have
    none."""
    table = _Judgements(verdict.assumes)
    pairs = _pairs(node, verdict, table, ceilings)
    return Report(
        node=NodeSection(
            hostname=_or(hostname, node),
            kernel=_or(release, node),
            source=node.host.source,
            scope=_or(scope, node),
        ),
        verdict=_verdict(verdict, consumer),
        consumers={state.consumer: _consumer(state) for state in verdict.states},
        pairs=pairs,
        judgements=table.sections,
        findings=_findings(verdict.findings),
        what_then=[_chain(chain) for chain in chains],
        plan=[_plan(chain) for chain in plans],
        modprobe=None if prediction is None else modprobe_section(prediction),
        probes=_probes(node),
        measurements=[],
    )


def _pairs(node: Node, verdict: Verdict, table: _Judgements, ceilings: Ceilings | None) -> list[PairSection]:
    """The pairs with the keys of their judgements, which this puts into the table. Ceilings are asked for
    only where there is a pair."""
    sections = []
    any_pair = any(pair is not None and pair.device for pair in verdict.matrix)
    bounds = ceilings(node) if ceilings is not None and any_pair else {}
    for pair, here in verdict.matrix.items():
        keys = table.keys(here)
        if pair is not None and pair.device:
            section = PairSection(
                gpu=pair.gpu, device=pair.device, distance=_or(distance, node, pair), judgements=keys
            )
            section.ceiling = bounds.get((pair.gpu, pair.device))
            sections.append(section)
    return sections


def _verdict(verdict: Verdict, consumer: str) -> VerdictSection:
    state = verdict.of(consumer)
    return VerdictSection(
        state=state.state.value,
        consumer=consumer,
        first_broken_layer=_layer(state),
        best_fallback=_best_fallback(verdict, consumer),
        summary=summary(state),
    )


def _consumer(state: ConsumerState) -> ConsumerSection:
    return ConsumerSection(
        state=state.state.value,
        path=state.path,
        first_broken_layer=_layer(state),
        best_fallback=state.best_fallback,
    )


def _layer(state: ConsumerState) -> str | None:
    return state.first_broken_layer


class _Judgements:
    """Equal judgements are told once: 96 pairs share a handful."""

    def __init__(self, assumes: tuple[Assumption, ...]) -> None:
        self.sections: dict[str, JudgementSection] = {}
        self._names: dict[tuple[object, ...], str] = {}
        self._assumes = assumes

    def keys(self, judgements: Iterable[Judgement]) -> list[str]:
        consumers: dict[tuple[object, ...], list[str]] = {}
        for j in judgements:
            missing = tuple(dict.fromkeys(m.source for m in j.missing))
            assumes = tuple(a.text for a in self._assumes if a.consumer in ("", j.consumer))
            key = (j.path, j.direction, j.state.value, j.codes, missing, assumes, j.confidence)
            consumers.setdefault(key, []).append(j.consumer)
        return [self._name(key, tuple(who)) for key, who in consumers.items()]

    def _name(self, key: tuple[object, ...], who: tuple[str, ...]) -> str:
        name = self._names.setdefault((*key, who), f"j{len(self._names) + 1}")
        if name not in self.sections:
            path, direction, state, codes, missing, assumes, confidence = key
            self.sections[name] = JudgementSection(
                path=path,  # type: ignore[arg-type]
                consumers=list(who),
                direction=direction,  # type: ignore[arg-type]
                state=state,  # type: ignore[arg-type]
                blocked_by=list(codes),  # type: ignore[call-overload]
                missing=list(missing),  # type: ignore[call-overload]
                assumes=list(assumes),  # type: ignore[call-overload]
                confidence=confidence,  # type: ignore[arg-type]
            )
        return name


def _findings(findings: Iterable[Finding]) -> list[FindingSection]:
    """What is worth telling. What one look would answer of several subjects is told once."""
    sections: list[FindingSection] = []
    unanswered: dict[tuple[str, str, str], FindingSection] = {}
    for finding in findings:
        if finding.status in SILENT:
            continue
        section = finding_section(finding)
        if finding.status is Status.UNKNOWN:
            first = unanswered.setdefault((section.code, section.seen, section.expected), section)
            if first is not section:
                first.also.append(section.subject)
                continue
        sections.append(section)
    return sections


def finding_section(finding: Finding) -> FindingSection:
    """One finding as the document tells it."""
    rule, outcome = finding.ruling.rule, finding.ruling.outcome
    seen, expected, cost = "", "", rule.cost
    match outcome:
        case Failed():
            seen, expected, cost = outcome.seen, outcome.expected, outcome.cost or rule.cost
        case Unknown(missing):
            seen, expected = f"{missing.source}: {missing.why.value}", missing.ask
        case Passed(why) | NotApplicable(why):
            seen = why
    return FindingSection(
        code=rule.code,
        layer=rule.layer,
        status=finding.status.value,
        subject=outcome.subject if isinstance(outcome, Failed) else subject_name(finding.ruling.subject),
        seen=seen,
        expected=expected,
        cost=cost if finding.status in (Status.FAILED, Status.WARNING) else "",
        confidence=finding.confidence,
        evidence=[EvidenceSection(source=s.name, locator=s.locator, text=s.text) for s in _shown(finding)],
        remedies=[*rule.remedies] if isinstance(outcome, Failed) else [],
        references=list(rule.references),
    )


def subject_name(subject: object) -> str:
    """A subject in words: a PCI address, a device, a module."""
    match subject:
        case None:
            return ""
        case str():
            return subject
        case Pair(gpu, device):
            return f"{gpu} {device}".strip()
        case _:
            return str(getattr(subject, "address", None) or getattr(subject, "name", None) or subject)


def _shown(finding: Finding) -> list[Source]:
    """The places that were quoted first, then the files; each once."""
    most = EVIDENCE_SHOWN_OF_UNKNOWN if finding.status is Status.UNKNOWN else EVIDENCE_SHOWN
    return sorted(finding.evidence, key=lambda source: not (source.locator or source.text))[:most]


def _best_fallback(verdict: Verdict, consumer: str) -> str | None:
    """The best way round for anybody: host-mapped where the GPU is integrated, though only verbs has it."""
    names = [verdict.of(consumer).best_fallback, *(state.best_fallback for state in verdict.states)]
    return "host-mapped" if "host-mapped" in names else next((name for name in names if name), None)


def _chain(chain: Chain) -> list[ChainStep]:
    return [
        ChainStep(
            remedy=step.remedy.name,
            effect=step.remedy.becomes,
            then=ThenSection(state=step.state.value, blocked_by=list(step.codes)),
            modprobe=None
            if step.modprobe is None
            else ModprobeOutcome(stderr="\n".join(step.modprobe.stderr)),
        )
        for step in chain
    ]


def _plan(chain: Chain) -> PlanSection:
    return PlanSection(
        steps=[
            PlanStep(
                remedy=step.remedy.name,
                effect=step.remedy.becomes,
                needs_root=step.remedy.needs_root,
                needs_reboot=step.remedy.needs_reboot,
                risk=step.remedy.risk,
                undo=step.remedy.undo,
                then=ThenSection(state=step.state.value, blocked_by=list(step.codes)),
            )
            for step in chain
        ]
    )


def modprobe_section(prediction: Prediction) -> ModprobeSection:
    """A prediction as the document tells it; what the evidence does not tell is null."""
    told = not prediction.result_unknown
    return ModprobeSection(
        module=prediction.module,
        exit_code=prediction.exit_code if told else None,
        loaded=prediction.loaded if told else None,
        stderr="\n".join(prediction.stderr),
        kernel_log=list(prediction.kernel_log),
        reason=prediction.reason,
        confidence=prediction.confidence,
        assumes=list(prediction.assumes),
    )


def _probes(node: Node) -> list[ProbeSection]:
    try:
        calls = probe_calls(node)
    except Lacks:
        return []
    return [
        ProbeSection(call=c.call, argument=c.argument, subject=c.subject, returned=c.returned, errno=c.errno)
        for c in calls
    ]


def _or(question: Fact[*Subject, str], node: Node, *subject: *Subject) -> str:
    try:
        return question(node, *subject)
    except Lacks:
        return ""
