"""The rows of a fleet for other programs: CSV, JUnit and CTRF."""

from __future__ import annotations

import csv
import io
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from gdrkit import __version__
from gdrkit.fleet.document import UNDECIDED, FleetReport, NodeRow, Standing
from gdrkit.fleet.traits import DRIFTING

COLUMNS = ("node", "standing", "causes", "rails", "remedies", "needs_reboot", "summary", "target")
_FAILED = (Standing.BLOCKED,)
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""What begins a formula, also in full width, and behind white space: OWASP, CSV Injection."""


def as_csv(report: FleetReport) -> str:
    """One line for each node (RFC 4180), with the versions as the last columns.

    A cell that a spreadsheet would take for a formula begins with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*COLUMNS, *DRIFTING))
    for row in report.nodes:
        cells = (
            row.name, row.standing.value, "; ".join(row.causes), " ".join(map(str, row.rails)),
            " ".join(row.remedies), "yes" if row.needs_reboot else "no", row.summary, row.target,
        )  # fmt: skip
        traits = (row.traits.get(name, "") for name in DRIFTING)
        writer.writerow([_plain(cell) for cell in (*cells, *traits)])
    return out.getvalue()


def _plain(cell: str) -> str:
    return f"'{cell}" if cell.lstrip()[:1] in _FORMULA else cell


def as_junit(report: FleetReport) -> str:
    """JUnit's XML, one test case for each node: a blocked one fails, one without an answer is an error.

    Format: the junit-10.xsd of Jenkins' xunit plugin."""
    failures = sum(row.standing in _FAILED for row in report.nodes)
    errors = sum(row.standing in UNDECIDED for row in report.nodes)
    head = (
        f'<testsuite name="gdr fleet doctor" tests="{len(report.nodes)}" failures="{failures}" '
        f'errors="{errors}" time="{report.seconds}">'
    )
    return "\n".join(
        ('<?xml version="1.0" encoding="UTF-8"?>', head, *map(_case, report.nodes), "</testsuite>", "")
    )


def _case(row: NodeRow) -> str:
    start = f'<testcase classname="gdr.doctor" name={_attribute(row.name)}'
    if row.standing not in (*_FAILED, *UNDECIDED):
        return f"{start}/>"
    kind = "failure" if row.standing in _FAILED else "error"
    words = _attribute(row.summary)
    return f"{start}><{kind} type={_attribute(row.standing)} message={words}/></testcase>"


CTRF_STATUS = {**dict.fromkeys(_FAILED, "failed"), **dict.fromkeys(UNDECIDED, "other")}
"""The status of a test by standing; any other standing has passed."""


def as_ctrf(report: FleetReport) -> dict[str, Any]:
    """The Common Test Report Format, one test for each node: a blocked one failed, one without an answer is
    `other`. The time of a single node is not known, and given as 0.

    Format: github.com/ctrf-io/ctrf, schema/ctrf.schema.json, specVersion 0.0.0."""
    tests = [_ctrf_test(row) for row in report.nodes]
    counts = Counter(test["status"] for test in tests)
    start, stop = _milliseconds(report)
    statuses = ("passed", "failed", "skipped", "pending", "other")
    summary = {"tests": len(tests), **{status: counts[status] for status in statuses}}
    return {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "generatedBy": f"gdrkit {__version__}",
        "results": {
            "tool": {"name": "gdr fleet doctor", "version": __version__},
            "summary": {**summary, "start": start, "stop": stop, "duration": stop - start},
            "tests": tests,
        },
    }


def _ctrf_test(row: NodeRow) -> dict[str, Any]:
    test = {
        "name": row.name,
        "status": CTRF_STATUS.get(row.standing, "passed"),
        "duration": 0,
        "rawStatus": row.standing.value,
    }
    if row.summary:
        test["message"] = row.summary
    return test | ({"tags": list(row.causes)} if row.causes else {})


def _milliseconds(report: FleetReport) -> tuple[int, int]:
    """When a run started and ended, since 1970 in UTC; 0 where a run does not say it."""
    try:
        start = datetime.fromisoformat(report.started)
        end = start + timedelta(seconds=report.seconds)
        return round(1000 * start.timestamp()), round(1000 * end.timestamp())
    except (ValueError, OverflowError):
        return 0, 0


def _attribute(value: str) -> str:
    """A quoted attribute; characters that XML 1.0 does not have are replaced."""
    from xml.sax.saxutils import quoteattr

    return quoteattr("".join(c if c.isprintable() and ord(c) < 0xFFFE else "?" for c in value))
