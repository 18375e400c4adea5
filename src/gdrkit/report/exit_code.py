"""The exit code of a report."""

from __future__ import annotations

from collections.abc import Collection

from gdrkit.report.boot_words import lost_at_boot
from gdrkit.report.document import Report
from gdrkit.rules.rule import Status
from gdrkit.verdict.findings import Finding


def exit_code(report: Report, require: str | None = None, fail_on: Collection[str] = ()) -> int:
    """0 nothing to fix, 1 works with warnings or until the next boot, 2 blocked, 3 unknown.

    Impossible counts as nothing to fix, or as blocked if `require` is "direct"; a finding of a code in
    `fail_on` counts as blocked, unless the verdict is unknown. What differs from an
    expectation is a warning, and so is what the next boot takes away; what cannot be compared with an
    expectation is unknown."""
    state = report.verdict.state
    if state == "unknown":
        return 3
    if state == "blocked" or (state == "impossible" and require == "direct"):
        return 2
    if failing(report, fail_on) is not None:
        return 2
    if report.expectation is not None and report.expectation.met != "yes":
        return 1 if report.expectation.met == "no" else 3
    if state == "impossible":
        return 0
    if lost_at_boot(report) is not None:
        return 1
    return 1 if any(finding.status == "warning" for finding in report.findings) else 0


def failing(report: Report, codes: Collection[str]) -> Finding | None:
    """The first finding of one of these codes; None without one. Notes do not count, nor what is unknown."""
    told = (Status.FAILED, Status.WARNING)
    return next((found for found in report.findings if found.code in codes and found.status in told), None)
