"""The rows of a fleet as other programs read them."""

from __future__ import annotations

import csv
import io

import pytest

from gdrkit.fleet.build import build
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.tables import COLUMNS, as_csv
from tests.fleet.fleets import row


def cells(*rows):
    return list(csv.DictReader(io.StringIO(as_csv(build(rows)), newline="")))


def test_causes_of_several_words_are_apart_in_csv():
    """A reason has blanks, a code has none."""
    lost = ("nic-ats: not collected", "acs-redirect: denied")

    assert cells(row("a", Standing.UNKNOWN, causes=lost))[0]["causes"].split("; ") == list(lost)
    assert cells(row("a", Standing.BLOCKED, causes=("port-down",)))[0]["causes"] == "port-down"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r\n=", " =", "\uff1d", "\uff0b", "\uff20"])
def test_a_cell_of_a_node_is_no_formula(start):
    summary = f"{start}HYPERLINK(1)"
    written = as_csv(build([NodeRow(name="n1", target="/a", standing=Standing.READY, summary=summary)]))
    row = list(csv.reader(io.StringIO(written, newline="")))[1]
    assert row[COLUMNS.index("summary")] == f"'{summary}"
    assert row[0] == "n1"
