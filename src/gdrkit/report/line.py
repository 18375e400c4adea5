"""The report in one line of at most 80 characters, for a table of a fleet or a monitoring plugin."""

from __future__ import annotations

from gdrkit.report.document import Report
from gdrkit.report.summary import WIDTH, clip


def line(report: Report) -> str:
    """State, first broken layer and summary."""
    verdict = report.verdict
    layer = f" [{verdict.first_broken_layer}]" if verdict.first_broken_layer else ""
    return clip(f"{verdict.state}{layer} {verdict.summary}", WIDTH)
