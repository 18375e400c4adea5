"""What a report's verdict rests on: the finding that is its cause, or the evidence that it lacks."""

from __future__ import annotations

from gdrkit.report.document import Report
from gdrkit.rules.capabilities import INITIATED
from gdrkit.rules.rule import Layer
from gdrkit.verdict.findings import Finding
from gdrkit.verdict.path_state import GOOD, State


def first_cause(report: Report) -> Finding | None:
    """The finding about the verdict's cause; where the path works, the first warning, and before all what
    is permanent one about which something can be done.

    None if nothing is wrong, evidence is missing, or the program has no direct path."""
    if report.verdict.state in GOOD:
        warnings = [f for f in report.findings if f.status == "warning"]
        return min(warnings, key=lambda finding: finding.permanent, default=None)
    found = [f for f in report.findings if f.code == report.verdict.cause]
    return min(found, key=lambda finding: finding.status != "failed", default=None)


def failed_all_the_same(report: Report) -> Finding | None:
    """Of a verdict that is unknown: what was configured and what fails for certain, if anything does.
    It is known, whatever the rest turns out to be."""
    if report.verdict.state is not State.UNKNOWN:
        return None
    failed = (f for f in report.findings if f.status == "failed" and f.layer is Layer.APPLICATION)
    return next(failed, None)


def deciding(report: Report) -> list[Finding]:
    """Of a verdict that is unknown: the unknown findings whose evidence it needs, one for each command."""
    if report.verdict.state is not State.UNKNOWN:
        return []
    missing = {
        source
        for judgement in report.judgements.values()
        if report.verdict.consumer in judgement.consumers and judgement.path not in INITIATED
        if judgement.state == "unknown"
        for source in judgement.missing
    }
    found = [f for f in report.findings if f.status == "unknown" and missing_of(f)[0] in missing]
    return list({f.expected: f for f in reversed(found)}.values())[::-1]


def missing_of(finding: Finding) -> tuple[str, str]:
    """The evidence that an unknown finding lacks, and why it is missing."""
    source, _, why = finding.seen.rpartition(": ")
    return source, why
