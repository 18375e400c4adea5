"""Every node in tests/evidence gets the verdict in its expected.toml."""

from __future__ import annotations

import functools

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.report.document import JudgementSection, Report
from gdrkit.report.exit_code import exit_code
from tests.evidence_nodes import Cell, expected, laid_down, names

REPORTED = ("failed", "warning", "note")


@functools.cache
def report(name: str) -> Report:
    return diagnose(open_host(str(laid_down(name))))


def statuses(name: str) -> dict[str, set[str]]:
    table: dict[str, set[str]] = {}
    for finding in report(name).findings:
        table.setdefault(finding.code, set()).add(finding.status)
    return table


each_node = pytest.mark.parametrize("name", names())


@each_node
def test_the_state_for_each_consumer(name):
    wanted = expected(name).consumers
    got = {
        consumer: section.state for consumer, section in report(name).consumers.items() if consumer in wanted
    }
    assert got == wanted, report(name).verdict.summary


@each_node
def test_the_first_broken_layer_the_workaround_and_the_exit_code(name):
    wanted, verdict = expected(name), report(name).verdict
    if wanted.first_broken_layer:
        assert (verdict.first_broken_layer or "none") == wanted.first_broken_layer
    if wanted.best_fallback:
        assert (verdict.best_fallback or "none") == wanted.best_fallback
    if wanted.exit_code is not None:
        assert exit_code(report(name)) == wanted.exit_code


@each_node
def test_the_findings_and_what_must_not_be_found(name):
    wanted, got = expected(name), statuses(name)
    for code, status in wanted.findings.items():
        allowed = REPORTED if status == "seen" else (status,) if isinstance(status, str) else status
        assert got.get(code, set()) & set(allowed), (code, status, got.get(code))
    reported = {code for code, found in got.items() if found & set(REPORTED)}
    assert not reported & set(wanted.absent)


@each_node
def test_the_subjects_that_findings_name(name):
    for code, subjects in expected(name).subjects.items():
        named = " ".join(f.subject for f in report(name).findings if f.code == code)
        assert all(subject in named for subject in subjects), (code, named)


@each_node
def test_the_distances_of_pairs(name):
    got = {f"{pair.gpu} {pair.device}": pair.distance for pair in report(name).pairs}
    for pair, distance in expected(name).distances.items():
        assert got.get(pair) == distance, pair


@each_node
def test_the_cells_of_the_matrix(name):
    for cell in expected(name).cells:
        found = list(cells(report(name), cell))
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


@each_node
def test_the_result_of_each_fix(name):
    wanted = expected(name)
    if wanted.plan_is_empty is not None:
        assert (not report(name).plan) == wanted.plan_is_empty
    if wanted.every_chain_ends:
        assert report(name).what_then
        assert {chain[-1].then.state for chain in report(name).what_then} == {wanted.every_chain_ends}


@each_node
def test_a_plan_has_only_steps_that_end_in_ready(name):
    for plan in report(name).plan:
        assert plan.steps[-1].then.state == "ready"


@each_node
def test_the_predicted_output_of_modprobe(name):
    wanted, got = expected(name).modprobe, report(name).modprobe
    if wanted is None:
        return
    assert got is not None
    for field in ("exit_code", "loaded", "reason", "stderr"):
        if (value := getattr(wanted, field)) is not None:
            assert getattr(got, field) == value, field
    assert set(wanted.kernel_log) <= set(got.kernel_log)


@each_node
def test_the_report_is_small_and_its_summary_one_line(name):
    assert len(report(name).verdict.summary) <= 80
