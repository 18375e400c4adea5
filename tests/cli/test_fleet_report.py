"""`gdr fleet report` as a user calls it."""

from __future__ import annotations

import pytest

from gdrkit.cli import main
from tests.evidence_nodes import build


@pytest.fixture
def bundles(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "bundles"
    folder.mkdir()
    for name in ("rail-down", "ubuntu-6.8-h100"):
        build(name, folder)
    return "bundles"


def test_it_writes_one_file_and_exits_as_doctor_does(bundles, tmp_path, capsys):
    assert main(["fleet", "report", bundles]) == main(["fleet", "doctor", bundles, "--nodes-only"]) == 2
    text = (tmp_path / "gdr-fleet-report.html").read_text()
    assert "1 of 2 nodes needs something." in text
    assert "open it in a browser" in capsys.readouterr().err


def test_a_run_that_was_kept_can_be_looked_at(bundles, tmp_path):
    assert main(["fleet", "doctor", bundles, "--json"]) == 2
    assert main(["fleet", "report", "--run", "last", "-o", "a.html"]) == 2
    assert "rail-07" in (tmp_path / "a.html").read_text()


def test_a_file_that_exists_is_refused_before_any_node_is_asked(bundles, tmp_path, capsys):
    (tmp_path / "a.html").write_text("mine")
    assert main(["fleet", "report", bundles, "-o", "a.html"]) == 64
    assert (tmp_path / "a.html").read_text() == "mine"
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("option", [["--json"], ["--csv"], ["--group", "1"], ["--nodes-only"]])
def test_what_doctor_prints_instead_is_refused(bundles, option, capsys):
    assert main(["fleet", "report", bundles, *option]) == 64
    assert "has no effect on report" in capsys.readouterr().err


def test_a_file_to_write_is_for_report_alone(bundles, capsys):
    assert main(["fleet", "doctor", bundles, "-o", "a.html"]) == 64
    assert "has no effect on doctor" in capsys.readouterr().err
