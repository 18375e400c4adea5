"""Every node in tests/evidence gets the verdict in its expected.toml."""

from __future__ import annotations

import pytest

from gdrkit.report.document import JudgementSection, Report
from gdrkit.report.exit_code import exit_code
from tests.evidence_nodes import Cell, diagnosed, expected, names

REPORTED = ("failed", "warning", "note")


def statuses(name: str) -> dict[str, set[str]]:
    table: dict[str, set[str]] = {}
    for finding in diagnosed(name).findings:
        table.setdefault(finding.code, set()).add(finding.status)
    return table


each_node = pytest.mark.parametrize("name", names())


def each_that_states(field: str) -> pytest.MarkDecorator:
    """The nodes whose expected.toml states this."""
    unstated = (None, "", (), {})
    stated = [name for name in names() if getattr(expected(name), field) not in unstated]
    return pytest.mark.parametrize("name", stated)


@each_that_states("consumers")
def test_the_state_for_each_consumer(name):
    wanted = expected(name).consumers
    got = {
        consumer: section.state
        for consumer, section in diagnosed(name).consumers.items()
        if consumer in wanted
    }
    assert got == wanted, diagnosed(name).verdict.summary


@each_that_states("first_broken_layer")
def test_the_first_broken_layer(name):
    assert (diagnosed(name).verdict.first_broken_layer or "none") == expected(name).first_broken_layer


@each_that_states("best_fallback")
def test_the_workaround(name):
    assert (diagnosed(name).verdict.best_fallback or "none") == expected(name).best_fallback


@each_that_states("next_boot")
def test_the_state_after_the_next_boot(name):
    after = diagnosed(name).next_boot
    assert after is not None and after.state == expected(name).next_boot


@each_that_states("exit_code")
def test_the_exit_code(name):
    assert exit_code(diagnosed(name)) == expected(name).exit_code


@each_that_states("findings")
def test_the_findings(name):
    got = statuses(name)
    for code, status in expected(name).findings.items():
        allowed = REPORTED if status == "seen" else (status,) if isinstance(status, str) else status
        assert got.get(code, set()) & set(allowed), (code, status, got.get(code))


@each_that_states("absent")
def test_what_must_not_be_found(name):
    reported = {code for code, found in statuses(name).items() if found & set(REPORTED)}
    assert not reported & set(expected(name).absent)


@each_that_states("subjects")
def test_the_subjects_that_findings_name(name):
    for code, subjects in expected(name).subjects.items():
        named = " ".join(f.subject for f in diagnosed(name).findings if f.code == code)
        assert all(subject in named for subject in subjects), (code, named)


@each_that_states("distances")
def test_the_distances_of_pairs(name):
    got = {f"{pair.gpu} {pair.device}": pair.distance for pair in diagnosed(name).pairs}
    for pair, distance in expected(name).distances.items():
        assert got.get(pair) == distance, pair


@each_that_states("cells")
def test_the_cells_of_the_matrix(name):
    for cell in expected(name).cells:
        found = list(cells(diagnosed(name), cell))
        assert found, cell
        for judgement in found:
            assert judgement.state == cell.state, (cell, judgement)
            assert set(cell.blocked_by) <= set(judgement.blocked_by), (cell, judgement)
            assert set(cell.missing) <= set(judgement.missing), (cell, judgement)


def cells(seen: Report, cell: Cell) -> list[JudgementSection]:
    keys = [
        key
        for pair in seen.pairs
        if cell.gpu in ("", pair.gpu) and cell.device in ("", pair.device)
        for key in pair.judgements
    ]
    judgements = [seen.judgements[key] for key in keys or ([] if seen.pairs else seen.judgements)]
    return [
        j for j in judgements if j.path == cell.path and (not cell.consumer or cell.consumer in j.consumers)
    ]


@each_that_states("plan_is_empty")
def test_whether_there_is_a_plan(name):
    assert (not diagnosed(name).plan) == expected(name).plan_is_empty


@each_that_states("every_chain_ends")
def test_the_result_of_each_fix(name):
    assert diagnosed(name).what_then
    assert {chain[-1].then.state for chain in diagnosed(name).what_then} == {expected(name).every_chain_ends}


def test_a_plan_has_only_steps_that_end_in_ready():
    ends = [plan.steps[-1].then.state for name in names() for plan in diagnosed(name).plan]
    assert set(ends) == {"ready"} and len(ends) > 5


@each_that_states("modprobe")
def test_the_predicted_output_of_modprobe(name):
    wanted, got = expected(name).modprobe, diagnosed(name).modprobe
    assert wanted is not None and got is not None
    fields = ("exit_code", "loaded", "reason", "stderr")
    stated = {field: value for field in fields if (value := getattr(wanted, field)) is not None}
    assert {field: getattr(got, field) for field in stated} == stated
    assert set(wanted.kernel_log) <= set(got.kernel_log)
    assert stated or wanted.kernel_log


@each_node
def test_the_report_is_small_and_its_summary_one_line(name):
    assert len(diagnosed(name).verdict.summary) <= 80
