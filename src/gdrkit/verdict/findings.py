"""Findings: each decisive result, with its status on this node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.catalogue import Code
from gdrkit.evidence import Confidence, MissingReason, Source
from gdrkit.facts.asking import as_asked
from gdrkit.facts.pci import PciGpu
from gdrkit.facts.rdma import Pair
from gdrkit.node import Node
from gdrkit.programs.names import NAMES
from gdrkit.rules.capabilities import INITIATED, OF_ITS_OWN
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, Status, Unknown
from gdrkit.verdict.cells import programs_of
from gdrkit.verdict.check_results import CheckResult, confidence_of, trail_of
from gdrkit.verdict.matrix import Matrix, concerns
from gdrkit.verdict.node_state import ConsumerState, may_be_another
from gdrkit.verdict.path_state import PathState, State, would_block

EVIDENCE_SHOWN = 12
EVIDENCE_SHOWN_OF_UNKNOWN = 3
"""Sources listed under one finding, so that a report of 8 GPUs x 12 NICs stays under 60 KB. An unknown
finding names the missing source; the other sources add little."""

ABSENT = MissingReason.ABSENT.value


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    source: str
    locator: str = ""
    text: str = ""


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result, with its status on this node and its evidence."""

    code: Code
    layer: Layer
    status: Status
    subject: str
    also: tuple[str, ...] = ()  # further subjects that are unknown for the same reason
    seen: str
    expected: str
    cost: str  # what it costs if it is not fixed; empty if it costs nothing here
    advice: str = ""  # what to do on this node, where the code's page is too general
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    remedies: tuple[RemedyName, ...]
    references: tuple[str, ...]
    programs: tuple[str, ...] = ()  # the only programs that it concerns, if the first is not among them
    permanent: bool = False  # no remedy restores what it takes, on this hardware


def findings(
    node: Node,
    results: Iterable[CheckResult],
    table: Matrix,
    states: Iterable[ConsumerState],
    first: str = NAMES[0],
) -> tuple[Finding, ...]:
    """The findings: failures and unknowns, by layer from the lowest, within a layer the worst first. What
    stops the `first` program has failed; what stops only others is a warning.

    Unknowns that one piece of evidence would resolve for several subjects are one finding."""
    states = tuple(states)
    nearest = {pair for state in states for pair in state.pairs}
    order = list(Status)
    shown = (result for result in results if result.decisive and not _is_far(result, nearest))
    with_status = ((result, status_of(result, table, states, first)) for result in shown)
    every = (
        _finding(node, result, status)
        for result, status in with_status
        if status not in (Status.NOTE, Status.WARNING) or not _may_be_far(node, table, result)
    )
    # by layer from the hardware up, before severity: what a lower layer lacks, nothing above it can give
    return tuple(_merged(sorted(every, key=lambda f: (f.layer, order.index(f.status)))))


def _is_far(result: CheckResult, nearest: set[Pair]) -> bool:
    """Whether a result is about a NIC that is not the nearest of its GPU: those are not reported."""
    return isinstance(result.subject, Pair) and result.subject not in nearest


def _may_be_far(node: Node, table: Matrix, result: CheckResult) -> bool:
    """Whether it is about a NIC that may not be the nearest, because the place of another is not known."""
    return isinstance(result.subject, Pair) and may_be_another(node, table, result.subject)


def _merged(found: Iterable[Finding]) -> Iterator[Finding]:
    groups: dict[object, list[Finding]] = {}
    for number, one in enumerate(found):
        unknown = one.status is Status.UNKNOWN
        groups.setdefault((one.code, one.seen, one.expected) if unknown else number, []).append(one)
    for first, *others in groups.values():
        yield replace(first, also=tuple(other.subject for other in others)) if others else first


def _finding(node: Node, result: CheckResult, status: Status) -> Finding:
    rule, outcome = result.rule, result.outcome
    subject, seen, expected, cost, advice = subject_name(result.subject), "", "", "", ""
    match outcome:
        case Failed():
            subject, seen, expected = outcome.subject, outcome.seen, outcome.expected
            cost, advice = outcome.cost, outcome.advice
        case Unknown(missing):
            seen, expected = f"{missing.source}: {missing.why.value}", as_asked(node, missing.ask)
    return Finding(
        code=rule.code,
        layer=rule.layer,
        status=status,
        subject=subject,
        seen=seen,
        expected=expected,
        cost=cost or rule.cost if status in (Status.FAILED, Status.WARNING) else "",
        advice=advice,
        confidence=confidence_of(node, result),
        evidence=_shown(trail_of(node, result).sources, subject, status),
        remedies=rule.remedies if isinstance(outcome, Failed) else (),
        references=rule.references,
        programs=_programs(result),
        permanent=_lasts(result),
    )


def _lasts(result: CheckResult) -> bool:
    """Whether no remedy restores what the failure takes, here: an outcome narrows what its rule says of any
    machine."""
    if not isinstance(result.outcome, Failed):
        return False
    gone = result.rule.permanent if result.outcome.permanent is None else result.outcome.permanent
    return bool(gone)


def _programs(result: CheckResult) -> tuple[str, ...]:
    concerned = programs_of(result.takes)
    return () if NAMES[0] in concerned else tuple(name for name in NAMES if name in concerned)


def subject_name(subject: object) -> str:
    """A subject as text: a PCI address, a device, a module."""
    match subject:
        case None:
            return ""
        case str():
            return subject
        case Pair(gpu, device):
            return f"{gpu} {device}".strip()
        case _:
            return str(getattr(subject, "address", None) or getattr(subject, "name", None) or subject)


def _shown(sources: Iterable[Source], subject: str, status: Status) -> tuple[Evidence, ...]:
    """Sources, limited in number: first what was read in them, nearest to the subject, then places in files
    and what is absent, then whole files. A file that is quoted is not named a second time as a whole."""
    every = tuple(sources)
    quoted = {source.name for source in every if source.text not in ("", ABSENT)}
    names = {_plain(word) for word in re.split(r"[\s,]+", subject) if word}

    def order(source: Source) -> tuple[bool, int, bool]:
        is_quoted = source.text not in ("", ABSENT)
        near = _distance(source.name, names) if is_quoted else 0
        return not is_quoted, near, not (source.locator or source.text)

    most = EVIDENCE_SHOWN_OF_UNKNOWN if status is Status.UNKNOWN else EVIDENCE_SHOWN
    shown = [s for s in every if s.locator or s.text or s.name not in quoted]
    return tuple(
        Evidence(source=s.name, locator=s.locator, text=s.text) for s in sorted(shown, key=order)[:most]
    )


def _distance(path: str, names: set[str]) -> int:
    """0 for a file with one of the names, or in a folder of that name; 1 for one farther below, else 2."""
    parts = [_plain(part) for part in path.split("/")]
    if names.intersection(parts[-2:]):
        return 0
    return 1 if names.intersection(parts) else 2


def _plain(name: str) -> str:
    """A name as the kernel compares names of modules: kernel/module/main.c, find_module()."""
    return name.replace("-", "_")


def status_of(result: CheckResult, table: Matrix, states: Iterable[ConsumerState], first: str) -> Status:
    """The status of a decisive result, for the programs with these states.

    A blocker fails the node only if no other direct path is ready instead.
    """
    if isinstance(result.outcome, Unknown):
        return Status.UNKNOWN
    if isinstance(result.outcome, Failed) and result.outcome.as_expected:
        return Status.NOTE
    states = tuple(states)
    blocked = [s for s in states if any(would_block(result, path, s.consumer) for path in OF_ITS_OWN)]
    if blocked:
        return _status_of_blocker(result, table, blocked, first)
    if any(would_block(result, path, s.consumer) for path in INITIATED for s in states):
        return Status.WARNING
    if _is_about_a_gpu_that_cannot(result, states):
        return Status.NOTE
    return Status.WARNING if result.rule.slows else result.rule.default_status


def _is_about_a_gpu_that_cannot(result: CheckResult, states: Iterable[ConsumerState]) -> bool:
    """Whether it is about a GPU that does not count, since it can never have a direct path."""
    counted = {pair.gpu for state in states for pair in state.pairs}
    return isinstance(result.subject, PciGpu) and bool(counted) and result.subject.address not in counted


def _status_of_blocker(
    result: CheckResult, table: Matrix, blocked: Iterable[ConsumerState], first: str
) -> Status:
    """Failed if the first program lacks a path because of it, a warning if only others do, else a note."""
    affected = [
        state.consumer
        for state in blocked
        if any(_is_lacked(result, table, pair, state) for pair in _concerned_pairs(result, table, state))
    ]
    if not affected:
        return Status.NOTE
    return Status.FAILED if first in affected else Status.WARNING


def _concerned_pairs(result: CheckResult, table: Matrix, state: ConsumerState) -> list[Pair | None]:
    """The pairs that this result applies to, of those at which the GPUs are judged."""
    return [pair for pair in state.pairs or (None,) if concerns(result.subject, pair)]


def _is_lacked(result: CheckResult, table: Matrix, pair: Pair | None, state: ConsumerState) -> bool:
    """Whether a program lacks a direct path at this pair because of this result.

    It does not if another path lacks nothing, or only a part of what this one lacks: where a port is down,
    that peermem would also need another driver is not why dma-buf is blocked. Nor does it if the other path
    lacks only evidence, and this one lacks the same, such as a job's own topology."""
    judgements = [j for j in table[pair] if j.path in OF_ITS_OWN and j.consumer == state.consumer]
    mine = [judgement for judgement in judgements if result in judgement.blocked_by]
    return any(not any(_lacks_less(other, one) for other in judgements) for one in mine)


def _lacks_less(other: PathState, one: PathState) -> bool:
    if other.state is State.UNKNOWN:
        return set(other.missing) <= set(one.missing)
    return set(other.blocked_by) < set(one.blocked_by)
