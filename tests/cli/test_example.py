"""What `gdr example` writes, and that each example shows what the list says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gdrkit.cli.example
from gdrkit.cli import main
from gdrkit.cli.example import EXAMPLES


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judged(path: Path, capsys) -> dict:
    capsys.readouterr()
    main(["doctor", str(path), "--json"])
    return json.loads(capsys.readouterr().out)["verdict"]


@pytest.mark.parametrize(
    ("name", "state", "cause"),
    [
        ("h100", "blocked", "port-down"),
        ("geforce", "impossible", "gpu-consumer"),
    ],
)
def test_a_node_is_judged_as_the_list_says(name, state, cause, here, capsys):
    assert main(["example", name]) == 0
    verdict = judged(here / EXAMPLES[name].file, capsys)
    assert (verdict["state"], verdict["cause"]) == (state, cause)


def test_of_two_sparks_each_is_judged_and_both_are_to_be_set_alike(here, capsys):
    """The command is the one that `gdr example` prints, whose `*` a shell expands."""
    assert main(["example", "spark", "-o", "my pair"]) == 0
    assert "now: gdr doctor 'my pair'/*\n" in capsys.readouterr().out
    pair = sorted(here.glob("my pair/*"))
    assert [path.name for path in pair] == ["spark-a.tar.gz", "spark-b.tar.gz"]
    verdict = judged(pair[0], capsys)
    assert (verdict["state"], verdict["cause"]) == ("impossible", "gpu-integrated")
    assert main(["doctor", *map(str, pair)]) == 0
    out = capsys.readouterr().out
    assert "p0 of spark-a to p0 of spark-b" in out
    both = out.partition("What to set on both nodes\n")[2]
    assert "NCCL_IB_HCA='=roceP2p1s0f0:1,rocep1s0f0:1'" in both


def test_the_node_of_the_operator_waits_for_ofed(here, capsys):
    assert main(["example", "operator"]) == 0
    capsys.readouterr()
    main(["doctor", "operator.tar.xz", "-v"])
    assert "operator-waits-for-ofed" in capsys.readouterr().out


def test_the_fleet_has_the_faults_that_the_list_counts(here, capsys):
    assert main(["example", "fleet", "--output", "nodes"]) == 0
    assert len(list(here.glob("nodes/*.tar.gz"))) == 12
    capsys.readouterr()
    main(["fleet", "doctor", "nodes", "-v"])  # of odd nodes the first screen has three kinds
    out = capsys.readouterr().out
    for fault in ("port-down", "acs-redirect", "peermem-stub", "595.45.04"):
        assert fault in out


def test_the_log_shows_a_job(here, capsys):
    assert main(["example", "job"]) == 0
    assert "gdr nccl job.log" in capsys.readouterr().out
    main(["nccl", "job.log"])
    assert "4 ranks" in capsys.readouterr().out


def test_without_a_name_the_examples_are_listed_and_nothing_is_written(here, capsys):
    assert main(["example"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*EXAMPLES]
    assert not [*here.iterdir()]


def test_an_existing_file_is_replaced_only_with_force(here, capsys):
    """test_options.py has a file; these are the files of a folder."""
    assert main(["example", "fleet"]) == 0
    first, *_ = sorted(here.glob("*/*"))
    content = first.read_bytes()
    first.write_bytes(b"mine")
    assert main(["example", "fleet"]) == 64
    assert "exists" in capsys.readouterr().err and first.read_bytes() == b"mine"
    assert main(["example", "fleet", "--force"]) == 0
    assert first.read_bytes() == content


def test_a_command_names_a_path_so_that_a_shell_reads_it(here, capsys):
    assert main(["example", "h100", "-o", "my node.tar.xz"]) == 0
    assert "gdr doctor 'my node.tar.xz'" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(here, capsys):
    (here / "file").write_text("")
    assert main(["example", "fleet", "-o", "file/nodes"]) == 73
    assert capsys.readouterr().err.count("\n") == 1


def test_examples_stay_small():
    """They are in each wheel."""
    folder = Path(gdrkit.cli.example.__file__).with_name("examples")
    assert sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) < 400_000
