"""A list of nodes that is far too long for the time that a run has."""

from __future__ import annotations

import json

from gdrkit.cli import main
from gdrkit.cli.exit import UNKNOWN
from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.brief import brief
from gdrkit.fleet.build import build
from gdrkit.fleet.document import Standing
from gdrkit.fleet.judge import without_answer
from gdrkit.fleet.processes import FANOUT, NOT_ASKED
from tests.fleet.programs import install
from tests.work import steps, within

MANY = 5000


def test_nodes_that_have_no_turn_before_the_deadline_are_counted_and_not_listed(
    tmp_path, monkeypatch, capsys
):
    """Each has its row in the document, and in a group; none has a line of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    install(tmp_path / "bin", "ssh", "exec sleep 60", monkeypatch)
    (tmp_path / "hosts").write_text(f"gpu[0001-{MANY}]\n")
    with within(30):
        code = main(["fleet", "doctor", "--hosts", str(tmp_path / "hosts"), "--timeout", "1", "--json"])
    output = capsys.readouterr()
    found = json.loads(output.out)

    assert code == UNKNOWN and len(found["nodes"]) == MANY
    assert len(output.err.splitlines()) <= FANOUT + 1 and NOT_ASKED not in output.err
    (group,) = [group for group in found["groups"] if group["causes"] == [NOT_ASKED]]
    assert group["count"] >= MANY - FANOUT and "--timeout" in group["advice"]


def test_a_node_without_a_turn_costs_little_of_a_report_of_100_000():
    """In lines of Python: 100,000 of them run in two to three seconds."""
    why = TargetError(NOT_ASKED, "--timeout S sets a later one")

    def report(count: int) -> None:
        names = [f"gpu{number:06}" for number in range(count)]
        rows = [without_answer(f"ssh://{name}", name, why, Standing.UNREACHABLE) for name in names]
        brief(build(rows))

    report(10)  # what is made once
    assert (steps(report, 600) - steps(report, 100)) / 500 < 150
