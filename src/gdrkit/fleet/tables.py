"""The rows of a fleet for other programs: lines of JSON, CSV and JUnit."""

from __future__ import annotations

import csv
import io

from msgspec import to_builtins

from gdrkit.agent.streams import visible_json
from gdrkit.fleet.document import UNDECIDED, FleetReport, NodeRow, Standing
from gdrkit.fleet.traits import DRIFTING
from gdrkit.formats.json_text import encode

NODE_SCHEMA = "gdrkit.fleet-node/1"
COLUMNS = ("node", "standing", "causes", "rails", "remedies", "needs_reboot", "summary", "target")
_FAILED = (Standing.BLOCKED,)
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""What begins a formula, also in full width, and behind white space: OWASP, CSV Injection."""


def as_jsonl(report: FleetReport) -> str:
    """One line of JSON for each node: its row of the document and when the run began."""
    lines = []
    for row in report.nodes:
        line = {"schema": NODE_SCHEMA, "started": report.started} | to_builtins(row)
        lines.append(visible_json(encode(line).decode()))
    return "".join(f"{line}\n" for line in lines)


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


def _attribute(value: str) -> str:
    """A quoted attribute; characters that XML 1.0 does not have are replaced."""
    from xml.sax.saxutils import quoteattr

    return quoteattr("".join(c if c.isprintable() and ord(c) < 0xFFFE else "?" for c in value))
