"""`gdr report` as a user calls it."""

from __future__ import annotations

import pytest

from gdrkit.cli import main
from tests.evidence_nodes import laid_down


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return str(laid_down("rail-down"))


def test_it_writes_a_file_named_after_the_host_and_exits_as_doctor_does(node, tmp_path, capsys):
    assert main(["report", node]) == main(["doctor", node, "-q"]) == 2
    written = tmp_path / "gdr-report-rail-07.html"
    assert written.read_text().startswith("<!doctype html>")
    assert "gdr-report-rail-07.html: open it in a browser" in capsys.readouterr().err


def test_a_file_that_exists_is_replaced_only_with_force(node, tmp_path, capsys):
    (tmp_path / "a.html").write_text("mine")
    assert main(["report", node, "-o", "a.html"]) == 64
    assert (tmp_path / "a.html").read_text() == "mine"
    assert "a.html exists" in capsys.readouterr().err
    assert main(["report", node, "-o", "a.html", "--force"]) == 2
    assert (tmp_path / "a.html").read_text() != "mine"


def test_a_dash_is_standard_output(node, tmp_path, capsys):
    assert main(["report", node, "-o", "-"]) == 2
    assert capsys.readouterr().out.endswith("</html>\n")
    assert not list(tmp_path.glob("*.html"))


def test_a_host_that_calls_itself_a_path_names_no_file_elsewhere():
    from gdrkit.cli.report import _file_name

    assert _file_name("../../etc/cron.d/x\n") == "etc_cron.d_x"
    assert _file_name("") == _file_name("...") == "node"
    assert len(_file_name("a" * 500)) == 64


def test_a_target_that_is_not_there_gets_one_line(capsys):
    assert main(["report", "/nope.tar.gz"]) == 66
    assert capsys.readouterr().err.count("\n") <= 2
