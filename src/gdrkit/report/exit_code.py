"""The exit code of a report."""

from __future__ import annotations

from gdrkit.report.document import Report


def exit_code(report: Report, require: str | None = None) -> int:
    """0 nothing to fix, 1 works with warnings, 2 blocked, 3 unknown.

    Impossible counts as nothing to fix, or as blocked if `require` is "direct". What differs from an
    expectation is a warning, and what cannot be compared with it is unknown."""
    state = report.verdict.state
    if state == "unknown":
        return 3
    if state == "blocked" or (state == "impossible" and require == "direct"):
        return 2
    if report.expectation is not None and report.expectation.met != "yes":
        return 1 if report.expectation.met == "no" else 3
    if state == "impossible":
        return 0
    return 1 if any(finding.status == "warning" for finding in report.findings) else 0
