"""`gdr fleet report` as a user calls it."""

from __future__ import annotations

import pytest

from gdrkit.cli import main
from tests.evidence_nodes import build


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    for name in ("rail-down", "ubuntu-6.8-h100"):
        build(name, folder)
    return str(folder)


@pytest.fixture
def bundles(two, tmp_path, monkeypatch):
    """The folder with both, seen from an empty one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return two


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


@pytest.mark.parametrize(
    "words",
    [["doctor", "-o", "a.html"], ["doctor", "--racks", "a"], ["doctor", "--rounds", "2"],
     ["report", "--json"], ["report", "--slurm"], ["bench", "--expect"], ["bench", "--sudo"]],
    ids=" ".join,
)  # fmt: skip
def test_an_option_of_another_command_of_the_family_is_unknown(words, bundles, capsys):
    assert main(["fleet", *words, bundles]) == 64
    assert f"gdr fleet {words[0]}: unknown argument: {words[1]}" in capsys.readouterr().err


def test_a_page_needs_evidence_or_a_run_and_takes_one_of_them(bundles, capsys):
    assert main(["fleet", "report"]) == 66
    assert "--run last" in capsys.readouterr().err
    assert main(["fleet", "report", bundles, "--run", "last"]) == 64
