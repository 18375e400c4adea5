"""What is worth telling: each decisive ruling with the status that it deserves on this node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.consumers.names import NAMES
from gdrkit.evidence import Confidence, Source
from gdrkit.facts.rdma import Pair
from gdrkit.node import Node
from gdrkit.rules import Code
from gdrkit.rules.engine import CheckResult, confidence_of, trail_of
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import DIRECT, Failed, Layer, Status, Unknown
from gdrkit.verdict.matrix import Matrix, concerns
from gdrkit.verdict.node_state import ConsumerState
from gdrkit.verdict.path_state import State, would_block

GOOD = (State.READY, State.ACTIVE)

EVIDENCE_SHOWN = 12
EVIDENCE_SHOWN_OF_UNKNOWN = 3
"""Sources told under one finding: the places first, so that 8 GPUs x 12 NICs stay under 60 KB. What is
unknown names the source that it lacks; what was read on the way there tells little."""


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    source: str
    locator: str = ""
    text: str = ""


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One ruling, as it matters here, with what it stands on."""

    code: Code
    layer: Layer
    status: Status
    subject: str
    also: tuple[str, ...] = ()  # further subjects of which the same is unknown, for the same lack
    seen: str
    expected: str
    cost: str  # what it costs to leave it so; empty where it costs nothing here
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    remedies: tuple[RemedyName, ...]
    references: tuple[str, ...]


def findings(
    node: Node, rulings: Iterable[CheckResult], table: Matrix, states: Iterable[ConsumerState]
) -> tuple[Finding, ...]:
    """What is worth telling, the ground first and within a layer the worst first. What passed is not, nor
    what does not arise. What one look would answer of several subjects is told once."""
    states = tuple(states)
    nearest = {pair for state in states for pair in state.pairs}
    order = list(Status)
    answers = (
        _finding(node, ruling, status_of(ruling, table, states))
        for ruling in rulings
        if ruling.decisive and not _is_far(ruling, nearest)
    )
    return tuple(_merged(sorted(answers, key=lambda f: (f.layer, order.index(f.status)))))


def _is_far(ruling: CheckResult, nearest: set[Pair]) -> bool:
    """A far NIC is no news: each GPU is judged at its nearest."""
    return isinstance(ruling.subject, Pair) and ruling.subject not in nearest


def _merged(found: Iterable[Finding]) -> Iterator[Finding]:
    groups: dict[object, list[Finding]] = {}
    for number, one in enumerate(found):
        unanswered = one.status is Status.UNKNOWN
        groups.setdefault((one.code, one.seen, one.expected) if unanswered else number, []).append(one)
    for first, *others in groups.values():
        yield replace(first, also=tuple(other.subject for other in others)) if others else first


def _finding(node: Node, ruling: CheckResult, status: Status) -> Finding:
    rule, outcome = ruling.rule, ruling.outcome
    subject, seen, expected, cost = subject_name(ruling.subject), "", "", ""
    match outcome:
        case Failed():
            subject, seen, expected, cost = outcome.subject, outcome.seen, outcome.expected, outcome.cost
        case Unknown(missing):
            seen, expected = f"{missing.source}: {missing.why.value}", missing.ask
    return Finding(
        code=rule.code,
        layer=rule.layer,
        status=status,
        subject=subject,
        seen=seen,
        expected=expected,
        cost=cost or rule.cost if status in (Status.FAILED, Status.WARNING) else "",
        confidence=confidence_of(node, ruling),
        evidence=_shown(trail_of(node, ruling).sources, status),
        remedies=rule.remedies if isinstance(outcome, Failed) else (),
        references=rule.references,
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


def _shown(sources: Iterable[Source], status: Status) -> tuple[Evidence, ...]:
    """The places that were quoted first, then the files; each once."""
    most = EVIDENCE_SHOWN_OF_UNKNOWN if status is Status.UNKNOWN else EVIDENCE_SHOWN
    first = sorted(sources, key=lambda source: not (source.locator or source.text))[:most]
    return tuple(Evidence(source=s.name, locator=s.locator, text=s.text) for s in first)


def status_of(ruling: CheckResult, table: Matrix, states: Iterable[ConsumerState]) -> Status:
    """What a decisive ruling means, for the programs with these states.

    A blocker fails the node only where no other direct path is ready in its place.
    """
    if isinstance(ruling.outcome, Unknown):
        return Status.UNKNOWN
    stopped = [s for s in states if any(would_block(ruling, path, s.consumer) for path in DIRECT)]
    if stopped:
        return _status_of_blocker(ruling, table, stopped)
    return Status.WARNING if ruling.rule.slows else ruling.rule.default_status


def _status_of_blocker(ruling: CheckResult, table: Matrix, stopped: Iterable[ConsumerState]) -> Status:
    """The program that leads decides whether it fails the node; another one alone makes it a warning."""
    suffering = [
        state.consumer
        for state in stopped
        if not all(_served(table, pair, state.consumer) for pair in _touched(ruling, table, state))
    ]
    if not suffering:
        return Status.NOTE
    return Status.FAILED if NAMES[0] in suffering else Status.WARNING


def _touched(ruling: CheckResult, table: Matrix, state: ConsumerState) -> list[Pair | None]:
    """The pairs at which a GPU is judged, as far as this ruling has a say in them."""
    return [pair for pair in state.pairs or (None,) if concerns(ruling.subject, pair)]


def _served(table: Matrix, pair: Pair | None, consumer: str) -> bool:
    return any(j.state in GOOD for j in table[pair] if j.path in DIRECT and j.consumer == consumer)
