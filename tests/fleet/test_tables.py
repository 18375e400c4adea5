"""The rows of a fleet as other programs read them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fleet.build import build
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.tables import COLUMNS, as_csv, as_ctrf
from tests.fleet.fleets import row

SCHEMA = json.loads((Path(__file__).parent / "schemas/ctrf.json").read_text())


def cells(*rows):
    return list(csv.DictReader(io.StringIO(as_csv(build(rows)), newline="")))


def test_causes_of_several_words_are_apart_in_csv():
    """A reason has blanks, a code has none."""
    lost = ("nic-ats: not collected", "acs-redirect: denied")

    assert cells(row("a", Standing.UNKNOWN, causes=lost))[0]["causes"].split("; ") == list(lost)
    assert cells(row("a", Standing.BLOCKED, causes=("port-down",)))[0]["causes"] == "port-down"


def ctrf(*rows, **fields):
    return as_ctrf(build(rows, **fields))


def test_ctrf_has_a_test_for_each_node():
    document = ctrf(
        row("a"),
        row("b", Standing.BLOCKED, causes=("peermem-stub",), summary="a stub is installed"),
        row("c", Standing.UNREACHABLE, summary="connection refused"),
        row("d", Standing.WARNINGS),
        started="2026-11-23T01:02:03Z",
        seconds=1.5,
    )
    jsonschema.validate(document, SCHEMA)
    tests = document["results"]["tests"]

    assert [(one["name"], one["status"]) for one in tests] == [
        ("a", "passed"), ("b", "failed"), ("c", "other"), ("d", "passed"),
    ]  # fmt: skip
    assert tests[1]["message"] == "a stub is installed" and tests[1]["tags"] == ["peermem-stub"]
    assert tests[3]["rawStatus"] == "warnings"
    summary = document["results"]["summary"]
    assert (summary["tests"], summary["passed"], summary["failed"], summary["other"]) == (4, 2, 1, 1)
    assert (summary["start"], summary["duration"]) == (1795395723000, 1500)


def test_every_standing_has_a_status_of_ctrf():
    document = ctrf(*(row(standing.value, standing) for standing in Standing))

    jsonschema.validate(document, SCHEMA)
    assert document["results"]["summary"]["tests"] == len(Standing)


def test_a_run_without_a_time_starts_at_0():
    assert ctrf(row("a"), started="yesterday")["results"]["summary"]["start"] == 0


def test_the_schema_refuses_what_is_not_ctrf():
    document = ctrf(row("a"))
    document["results"]["tests"][0]["status"] = "blocked"

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_ctrf_is_valid_whatever_a_node_says(summary, started, seconds):
    jsonschema.validate(ctrf(row("a", summary=summary), started=started, seconds=seconds), SCHEMA)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r\n=", " =", "\uff1d", "\uff0b", "\uff20"])
def test_a_cell_of_a_node_is_no_formula(start):
    summary = f"{start}HYPERLINK(1)"
    written = as_csv(build([NodeRow(name="n1", target="/a", standing=Standing.READY, summary=summary)]))
    row = list(csv.reader(io.StringIO(written, newline="")))[1]
    assert row[COLUMNS.index("summary")] == f"'{summary}"
    assert row[0] == "n1"
