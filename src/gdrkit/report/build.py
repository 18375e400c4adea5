"""Build the document of a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gdrkit.catalogue import Code, consumer_of
from gdrkit.facts.expectation import expectation
from gdrkit.facts.kernel import hostname, release
from gdrkit.facts.pci import gpus
from gdrkit.facts.probe import probe_calls
from gdrkit.facts.rdma import distance
from gdrkit.facts.virtual import scope
from gdrkit.node import Node, if_missing
from gdrkit.programs.consumer import Consumer
from gdrkit.repair.platforms.means import CONTAINER, has_packages, is_possible, means, platform_of
from gdrkit.report.document import (
    Ceiling,
    ChainStep,
    ConsumerSection,
    ExpectationSection,
    GpuSection,
    InitiatedSection,
    JudgementSection,
    Met,
    ModprobeOutcome,
    ModprobeSection,
    NodeSection,
    PairSection,
    PlanSection,
    PlanStep,
    Report,
    VerdictSection,
)
from gdrkit.report.here import advice_here, request
from gdrkit.report.summary import summary
from gdrkit.rules.capabilities import DIRECT, Fallback, Path
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import GPU, Failed, Unknown
from gdrkit.verdict import Assumption, Verdict
from gdrkit.verdict.findings import Finding
from gdrkit.verdict.node_state import ConsumerState
from gdrkit.verdict.path_state import GOOD, PathState, State

if TYPE_CHECKING:
    from gdrkit.loader import Prediction
    from gdrkit.repair.remedies.plan import Chain

Ceilings = Callable[[Node], Mapping[tuple[str, str], Ceiling]]
"""Computes the ceiling of each pair, by GPU and RDMA device."""


def build(
    node: Node,
    verdict: Verdict,
    consumer: str,
    chains: Iterable[Chain],
    plans: Iterable[Chain],
    prediction: Prediction | None,
    ceilings: Ceilings | None = None,
) -> Report:
    """The document of a node. The verdict is that of `consumer`; without `ceilings`, pairs have none."""
    table = _JudgementTable(verdict.assumes)
    pairs = _pairs(node, verdict, table, ceilings)
    report = Report(
        node=NodeSection(
            hostname=if_missing("", hostname, node),
            kernel=if_missing("", release, node),
            source=node.host.source,
            scope=if_missing("", scope, node),
            platform=platform_of(node),
            collected=getattr(node.host, "collected", ""),
        ),
        verdict=_verdict(verdict, consumer),
        consumers={state.consumer: _consumer(node, state) for state in verdict.states},
        gpus=tuple(_gpus(node, verdict, consumer)),
        pairs=pairs,
        ports=(),
        judgements=table.sections,
        findings=tuple(_in_words_of(node, finding) for finding in verdict.findings),
        what_then=tuple(_chain(chain) for chain in chains),
        plan=tuple(_plan(node, chain) for chain in plans),
        modprobe=None if prediction is None else modprobe_section(prediction),
        probes=if_missing((), probe_calls, node),
        measurements=(),
        expectation=_expectation(node, verdict),
        next_boot=None,
        in_use=(),
    )
    return replace(report, ask=request(node, report))


_NOT_EVERYWHERE = (RemedyName.SIGN_MODULE,)
"""Remedies that also a host with packages may not be able to carry out."""


def _in_words_of(node: Node, finding: Finding) -> Finding:
    """A finding with the remedies and the advice that the node's platform can follow."""
    if finding.status == "unknown":
        return finding
    able = tuple(name for name in finding.remedies if _is_sure(node, name) or is_possible(node, name))
    words = advice_here(node, finding.code, finding.advice, finding.subject)
    return replace(finding, remedies=able, advice=words)


def _is_sure(node: Node, name: RemedyName) -> bool:
    """Whether a remedy need not be loaded to know that it is possible: what is asked of the owner of a
    container's host may be, and on a host with packages most are."""
    return platform_of(node) == CONTAINER or (has_packages(node) and name not in _NOT_EVERYWHERE)


def _expectation(node: Node, verdict: Verdict) -> ExpectationSection | None:
    """Whether the expectation is met; what is not known is not met, and not a difference."""
    supplied = expectation(node)
    if not supplied.file:
        return None
    from gdrkit.rules.expectation import COMPARISONS

    compared = [result for result in verdict.check_results if result.rule in COMPARISONS]
    differs = [result.rule.code for result in compared if isinstance(result.outcome, Failed)]
    unknown = any(isinstance(result.outcome, Unknown) for result in compared)
    met: Met = "no" if differs else "unknown" if unknown else "yes"
    return ExpectationSection(file=supplied.file, met=met, differs=tuple(dict.fromkeys(differs)))


def _pairs(
    node: Node, verdict: Verdict, table: _JudgementTable, ceilings: Ceilings | None
) -> tuple[PairSection, ...]:
    """The pairs with the keys of their judgements, which are added to the table.

    Ceilings are computed only if there is a pair."""
    sections = []
    any_pair = any(pair is not None and pair.device for pair in verdict.matrix)
    bounds = ceilings(node) if ceilings is not None and any_pair else {}
    for pair, states in verdict.matrix.items():
        keys = table.keys(states)
        if pair is not None and pair.device:
            sections.append(
                PairSection(
                    gpu=pair.gpu,
                    device=pair.device,
                    distance=if_missing("", distance, node, pair),
                    judgements=keys,
                    ceiling=bounds.get((pair.gpu, pair.device)),
                )
            )
    return tuple(sections)


def _verdict(verdict: Verdict, consumer: str) -> VerdictSection:
    state = verdict.of(consumer)
    return VerdictSection(
        state=state.state,
        consumer=consumer,
        first_broken_layer=state.first_broken_layer,
        cause=state.cause.rule.code if state.cause else None,
        best_fallback=_best_fallback(verdict, consumer),
        summary=summary(state),
    )


def _consumer(node: Node, state: ConsumerState) -> ConsumerSection:
    program, initiated = consumer_of(state.consumer), state.initiated
    return ConsumerSection(
        state=state.state,
        path=state.path,
        first_broken_layer=state.first_broken_layer,
        best_fallback=state.best_fallback,
        installed=program.installed(node),
        without=_without(state, program),
        initiated=None
        if initiated is None
        else InitiatedSection(name=program.initiates, by=initiated.by, codes=initiated.codes),
    )


def _without(state: ConsumerState, program: Consumer) -> str:
    """What a program does where no direct path is open: it copies nothing out of a GPU that no program can
    use, and goes on with the others."""
    if state.cause is None or GPU not in state.cause.takes:
        if program.elsewhere and state.elsewhere in GOOD:
            return program.elsewhere
        unless = program.elsewhere and state.elsewhere is State.UNKNOWN
        return f"{program.without}, unless it {program.elsewhere}" if unless else program.without
    judged = [any(GPU in result.takes for result in one.blocked_by) for one in state.judgements]
    if all(judged):
        return "has no GPU that it could use"
    return f"cannot use {'that GPU' if sum(judged) == 1 else f'{sum(judged)} of these GPUs'} at all"


def _gpus(node: Node, verdict: Verdict, consumer: str) -> Iterator[GpuSection]:
    """Each GPU, judged at its own NIC. Without any NIC, all share the judgement of the node."""
    state = verdict.of(consumer)
    judged = {
        pair.gpu: (pair.device, judgement)
        for pair, judgement in zip(state.pairs, state.judgements, strict=False)
    }
    present = if_missing((), lambda: tuple(gpu.address for gpu in gpus(node)))
    for address in present or judged:
        device, judgement = judged.get(address, ("", None if judged else state.worst))
        yield GpuSection(
            gpu=address,
            device=device,
            path=judgement.path if judgement else "",
            state=judgement.state if judgement else State.IMPOSSIBLE,
            blocked_by=judgement.codes if judgement else _why_never(verdict, address, consumer),
            counts=judgement is not None or not judged,
        )


def _why_never(verdict: Verdict, gpu: str, consumer: str) -> tuple[Code, ...]:
    """What makes every direct path of a GPU impossible that therefore does not count."""
    found = (
        judgement.codes
        for pair, judgements in verdict.matrix.items()
        for judgement in judgements
        if pair is not None and pair.gpu == gpu and judgement.consumer == consumer
        if judgement.state is State.IMPOSSIBLE and judgement.path in DIRECT
    )
    return next(found, ())


class _JudgementTable:
    """Merges equal judgements: 96 pairs share a handful."""

    def __init__(self, assumes: tuple[Assumption, ...]) -> None:
        self._names: dict[JudgementSection, str] = {}
        self._assumes = assumes

    @property
    def sections(self) -> dict[str, JudgementSection]:
        return {name: section for section, name in self._names.items()}

    def keys(self, judgements: Iterable[PathState]) -> tuple[str, ...]:
        """The keys of the judgements; consumers with equal judgements share one."""
        alike: dict[JudgementSection, list[str]] = {}
        for judgement in judgements:
            alike.setdefault(self._section(judgement), []).append(judgement.consumer)
        return tuple(self._name(replace(one, consumers=tuple(names))) for one, names in alike.items())

    def _section(self, judgement: PathState) -> JudgementSection:
        """A judgement without its consumer."""
        return JudgementSection(
            path=Path(judgement.path),
            consumers=(),
            direction=judgement.direction,
            state=judgement.state,
            blocked_by=judgement.codes,
            missing=tuple(dict.fromkeys(m.source for m in judgement.missing)),
            assumes=tuple(a.text for a in self._assumes if a.consumer in ("", judgement.consumer)),
            confidence=judgement.confidence,
        )

    def _name(self, section: JudgementSection) -> str:
        return self._names.setdefault(section, f"j{len(self._names) + 1}")


def _best_fallback(verdict: Verdict, consumer: str) -> Fallback | None:
    """The best fallback of any consumer: host-mapped on an integrated GPU, although only verbs uses it."""
    names = [verdict.of(consumer).best_fallback, *(state.best_fallback for state in verdict.states)]
    return "host-mapped" if "host-mapped" in names else next((name for name in names if name), None)


def _chain(chain: Chain) -> tuple[ChainStep, ...]:
    return tuple(
        ChainStep(
            remedy=step.remedy.name,
            effect=step.remedy.becomes,
            then=step.then,
            modprobe=None if step.modprobe is None else _modprobe_outcome(step.modprobe),
        )
        for step in chain
    )


def _modprobe_outcome(prediction: Prediction) -> ModprobeOutcome:
    known = not prediction.undecided
    return ModprobeOutcome(stderr="\n".join(prediction.stderr), loaded=prediction.loaded if known else None)


def _plan(node: Node, chain: Chain) -> PlanSection:
    return PlanSection(
        steps=tuple(
            PlanStep(
                remedy=step.remedy.name,
                effect=step.remedy.becomes,
                needs_root=way.needs_root,
                needs_reboot=way.needs_reboot,
                risk=way.risk,
                undo=way.undo,
                then=step.then,
            )
            for step, way in ((step, means(node, step.remedy)) for step in chain)
        )
    )


def modprobe_section(prediction: Prediction) -> ModprobeSection:
    """A prediction as a section; what the evidence does not show is null, as is the end of an open one."""
    known = not prediction.undecided
    return ModprobeSection(
        module=prediction.module,
        exit_code=prediction.exit_code if known else None,
        loaded=prediction.loaded if known else None,
        stderr="\n".join(prediction.stderr),
        kernel_log=prediction.kernel_log,
        reason=prediction.reason,
        confidence=prediction.confidence,
        assumes=prediction.assumes,
        unless=prediction.unless,
    )
