"""NCCL's own diagnostics in a job's logs: what the reports show, with their lines, and the findings."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from gdrkit.catalogue import rule_of
from gdrkit.formats.plural import plural
from gdrkit.jobs.gather import GatheredRanks
from gdrkit.jobs.job import DiagnosticStatement, JobDiagnostics, JobFinding, MeasuredBandwidth
from gdrkit.programs.nccl.diagnostic_records import (
    DiagnosticEnd,
    DiagnosticHeader,
    DiagnosticLine,
    DiagnosticsSkipped,
)
from gdrkit.programs.nccl.diagnostic_statements import PROBLEMS, Diagnostics, Effect, Statement
from gdrkit.programs.nccl.diagnostics import diagnostics
from gdrkit.programs.nccl.log import LocatedRecord
from gdrkit.programs.nccl.log_records import FusedDevice, NcclRecord

KINDS = (DiagnosticHeader, DiagnosticEnd, DiagnosticLine, DiagnosticsSkipped, FusedDevice)


def read_diagnostics(gathered: GatheredRanks) -> Diagnostics | None:
    """What the reports in the logs show, with positions in place of lines; None if there is none."""
    return diagnostics(_records(gathered), _hosts(gathered))


def _records(gathered: GatheredRanks) -> list[LocatedRecord[NcclRecord]]:
    found: list[LocatedRecord[NcclRecord]] = []
    for process in gathered.processes.values():
        for kind in KINDS:
            for record, entry in process.records.get(kind, {}).items():
                found.append(LocatedRecord(record, entry.position, process.name))
    return sorted(found, key=lambda one: one.line)


def _hosts(gathered: GatheredRanks) -> dict[tuple[str, int], str]:
    """The hosts of ranks by communicator, as lines at the level INFO show them."""
    return {
        (one.identifier, one.rank): host
        for unit, communicators in gathered.communicators.items()
        if (host := gathered.processes[unit.process].host)
        for one in communicators
        if one.identifier
    }


def located(found: Diagnostics, gathered: GatheredRanks) -> JobDiagnostics:
    """The same for the document, with the lines of the logs."""
    return JobDiagnostics(
        active=found.active, passive=found.passive, ranks=found.ranks, processes=found.processes,
        hosts=found.hosts, host_count=found.host_count, gpus=found.gpus, tested=found.tested,
        tested_memory=found.tested_memory, direct_path=found.direct_path, summary=summary_of(found),
        bandwidths=tuple(
            MeasuredBandwidth(**{**structs.asdict(rate), "line": gathered.where(rate.line)})
            for rate in found.bandwidths
        ),
        statements=tuple(
            DiagnosticStatement(
                effect=one.effect, check=one.check, text=one.text, codes=one.codes, ranks=one.ranks,
                host=one.host, todo=one.todo, line=gathered.where(one.line),
            )
            for one in found.statements
        ),
    )  # fmt: skip


EXPECTED = {
    "env-differs-between-ranks": "one value on all ranks",
    "gdr-level-too-low": "a level that allows the distance",
    "port-down": "an active port",
    "iommu-groups-differ": "each GPU in the IOMMU group of its NIC",
    "acs-bits-differ": "the bits that rdma_topo names",
}


def findings_of(found: Diagnostics, gathered: GatheredRanks) -> Iterator[JobFinding]:
    """A finding for each cause that a report shows."""
    for one in found.of(Effect.CAUSE):
        for code in one.codes:
            rule = rule_of(code)
            yield JobFinding(
                code=code, layer=rule.layer, status="failed" if one.blocks else "warning",
                subject=_subject(one), seen=one.text, expected=EXPECTED.get(code, "the same on all ranks"),
                cost=rule.cost, ranks=one.rank_count or len(one.ranks) or 1,
                lines=(gathered.where(one.line),), references=rule.references, todo=one.todo,
            )  # fmt: skip


def _subject(one: Statement) -> str:
    """The variable, or the rank, that a statement is about."""
    if one.codes == ("env-differs-between-ranks",):
        return one.text.partition(" ")[0]
    return f"rank {one.ranks[0]}" if one.ranks else one.check


def summary_of(found: Diagnostics) -> str:
    """The reports in a few words, the worst first."""
    problems = found.of(*PROBLEMS)
    if not found.tested:
        return f"diagnostics tested nothing: {_why_untested(found)}"
    if not problems:
        count, noun = (found.ranks, "rank") if found.ranks else (found.processes, "process")
        ranks = f" of {plural(count, noun)}" if count else ""
        return f"diagnostics{ranks} show no cause, and no proof of GPUDirect RDMA"
    first = problems[0]
    codes = tuple(dict.fromkeys(one.codes[0] for one in problems if one.effect is Effect.CAUSE))
    if codes:
        return f"diagnostics show {', '.join(codes[:2])}" + (
            f" and {len(codes) - 2} more" * (len(codes) > 2)
        )
    if len(first.codes) == 1:
        return f"diagnostics: {first.codes[0]} is possible"
    return f"diagnostics: {first.brief or first.text.partition(';')[0]}"


def _why_untested(found: Diagnostics) -> str:
    """Why a report has no result."""
    first = found.of(Effect.OPEN)[0]  # a line without a result, or none at all, makes such a statement
    return first.brief or first.text.removeprefix("not run: ").partition(";")[0]
