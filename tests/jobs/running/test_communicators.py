"""NCCL's own word about its communicators, as two H200s gave it (NCCL 2.28.9)."""

from __future__ import annotations

import json

import pytest

from gdrkit.cli import main
from gdrkit.jobs.running.text import text
from tests.jobs.running.records import judged, process, record
from tests.programs.nccl.diagnostic_reports import LOGS

STATUS = {
    "nccl_version": "2.28.9",
    "communicators": [
        {
            "hash": "0x1", "size": 3, "missing_ranks": [{"rank": 2}],
            "ranks": [
                {"rank": 0, "host": "192.0.2.2", "pid": 701, "cuda_dev": 0, "status": {"init_state": 0}},
                {"rank": 1, "host": "192.0.2.3", "pid": 702, "cuda_dev": 0, "status": {"init_state": 0}},
            ],
        }
    ],
    "ras": {"collective": {"timed_out": False}},
}  # fmt: skip


def answered(**changed) -> dict:
    answer = {"format": "json", "text": json.dumps(STATUS), "truncated": False, **changed}
    return record(process(701), ras=[answer])


def test_ranks_hosts_and_who_is_missing_are_told_with_the_processes_of_this_node():
    (one,) = judged(answered()).communicators

    assert (one.version, one.ranks, one.hosts, one.missing, one.processes) == ("2.28.9", 3, 2, 1, (701,))
    assert "NCCL 2.28.9: 3 ranks on 2 hosts, 1 missing (701)" in text(judged(answered()))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format": "text", "text": "Job summary"}, "before 2.28.7"),
        ({"truncated": True}, "too long"),
        ({"text": "{"}, ""),
        ({"text": json.dumps({**STATUS, "communicators": [{"size": -1}]})}, ""),
    ],
)
def test_an_answer_that_cannot_be_read_is_a_note_and_no_communicator(changed, why):
    document = judged(answered(**changed))

    assert document.communicators == ()
    assert any(note.startswith("NCCL's RAS: ") and why in note for note in document.notes)


def test_a_bundle_cannot_be_asked(tmp_path, capsys):
    assert main(["ps", "--ras", str(tmp_path)]) >= 64
    assert "not a running machine" in capsys.readouterr().err


def reported(answer: str) -> dict:
    rows = [{"format": "json", "text": json.dumps(STATUS)}, {"format": "diagnostics", "text": answer}]
    return record(process(701), ras=rows)


def test_a_report_of_diagnostics_is_read_beside_the_communicators():
    found = judged(reported((LOGS / "iommu-on-groups-differ.log").read_text()))

    assert len(found.communicators) == 1
    assert found.diagnostics is not None
    assert (found.diagnostics.processes, found.diagnostics.hosts) == (8, ("l40s-07", "l40s-08"))
    assert found.diagnostics.statements[0].codes == ("iommu-translating",)
    page = text(found)
    assert "NCCL's diagnostics: possible: iommu-translating: " in page.replace("\n", " ")
    assert "do not show the direct path" in page.replace("\n  ", " ")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("ERROR: Unknown command diagnostics\n", "not before 2.31.2"),
        ("BUSY: diagnostics already in progress\n", "BUSY: diagnostics already in progress"),
        ("", "no answer"),
    ],
)
def test_without_a_report_a_note_says_why(answer: str, why: str):
    found = judged(reported(answer))

    assert found.diagnostics is None
    assert f"NCCL's diagnostics: {why}" in found.notes
