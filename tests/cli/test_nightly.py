"""The script of the page "Nightly", run on two nights."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gdrkit.cli import main
from tests.cli.test_streams import GDR
from tests.evidence_nodes import laid_down
from tests.fleet.programs import install, sends_file

PAGE = Path(__file__).parent.parent.parent / "docs/nightly.md"
NODES = {"gpu1": "ubuntu-6.8-h100", "gpu2": "gpu-gone", "gpu3": "rail-down"}

SCONTROL = """
[ "$1 $2" = "show hostnames" ] && {{ echo "$3" | tr , '\\n'; exit; }}
[ "$2" = show ] && {{
  state=$(cat {folder}/slurm-state-$4 2>/dev/null)
  echo "NodeName=$4 Arch=x86_64 State=${{state:-IDLE}} ThreadsPerCore=1"; exit; }}
[ -e {folder}/denied ] && exit 1
echo "$*" >> {folder}/drained
"""
"""Shows each node in the state of a file, and takes down what is to be updated. It expands no ranges."""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """What a node of each name sends."""
    folder = tmp_path_factory.mktemp("bundles")
    for node, name in NODES.items():
        bundle = ("--output", str(folder / f"{node}.tar.gz"))
        main(["collect", "-q", "--root", str(laid_down(name)), *bundle, "--no-probe"])
    return folder


@pytest.fixture
def night(bundles, tmp_path, monkeypatch):
    """Runs the script; returns its exit code. `gpu3` answers only while the file `up` exists, and so does
    any other node, with the same evidence."""
    (script,) = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "nightly").write_text(script)
    (tmp_path / "hosts").write_text("gpu[1-3]\n")
    (tmp_path / "out").mkdir()
    lines = [
        f"[ $node = {node} ] && {{ {sends_file(bundles / f'{node}.tar.gz')}; }}"
        for node in NODES
        if node != "gpu3"
    ]
    lines += [f"[ ! -e {tmp_path}/up ] && exit 255", sends_file(bundles / "gpu3.tar.gz")]
    install(tmp_path / "bin", "ssh", "\n".join(lines), monkeypatch)
    install(tmp_path / "bin", "mail", f'echo "$2" > {tmp_path}/mail; cat >> {tmp_path}/mail', monkeypatch)
    install(tmp_path / "bin", "scontrol", SCONTROL.format(folder=tmp_path), monkeypatch)
    install(tmp_path / "bin", "gdr", f'exec {shlex.join(GDR)} "$@"', monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run() -> int:
        words = [shutil.which("sh"), "nightly", tmp_path / "hosts", tmp_path / "out", "root"]
        return subprocess.run(words, cwd=tmp_path, env=os.environ, timeout=120, check=False).returncode

    return run


def test_two_nights(night, tmp_path):
    """The first mail has all; the second one only what changed. Only a blocked node is drained."""
    assert night() == 0
    first = (tmp_path / "mail").read_text()
    assert not (tmp_path / "drained").exists()  # gpu3 gave no answer
    (tmp_path / "up").touch()
    assert night() == 0
    second = (tmp_path / "mail").read_text()
    rows = [json.loads(line) for line in (tmp_path / "out/nodes.jsonl").read_text().splitlines()]
    metrics = (tmp_path / "out/gdrkit-fleet.prom").read_text()

    assert "need something: 1 unreachable" in first and "Do this first" in first and "gpu-missing" in first
    assert "need something: 1 blocked" in second.splitlines()[0]
    assert "worse: unreachable" in second and "gpu3" in second
    assert "Do this first" not in second and "gpu2" not in second
    assert (tmp_path / "drained").read_text() == (
        "update NodeName=gpu3 State=DRAIN Reason=gdrkit: port-down\n"
    )
    assert [row["name"] for row in rows] == [*NODES, *NODES] and rows[5]["standing"] == "blocked"
    assert 'gdr_fleet_node_cause_info{cause="gpu-missing",node="gpu2"} 1.0' in metrics


def test_a_node_that_is_drained_or_down_keeps_its_reason(night, tmp_path):
    """An administrator's reason, such as a return to the maker, or ours of the night before."""
    states = {"a": "IDLE+DRAIN", "b": "MIXED+DRAIN", "c": "DOWN*", "d": "DRAINED", "e": "FAILING"}
    (tmp_path / "up").touch()
    (tmp_path / "hosts").write_text("".join(f"{node}\n" for node in (*states, "idle")))
    for node, state in states.items():
        (tmp_path / f"slurm-state-{node}").write_text(state)

    assert night() == 0
    assert [line.split()[1] for line in (tmp_path / "drained").read_text().splitlines()] == ["NodeName=idle"]
    assert "not drained" not in (tmp_path / "mail").read_text()


def test_a_user_without_the_right_to_drain_learns_it_from_the_mail(night, tmp_path):
    for name in ("up", "denied"):
        (tmp_path / name).touch()

    assert night() == 0
    assert (tmp_path / "mail").read_text().startswith("gdr: not drained: gpu3. ")


def test_a_run_that_could_not_be_made_is_mailed_and_fails(night, tmp_path):
    (tmp_path / "hosts").unlink()

    assert night() == 70
    assert (tmp_path / "mail").read_text().startswith("gdr nightly failed: exit code 66\n")
    assert not (tmp_path / "drained").exists()


@pytest.mark.parametrize(("script", "code"), [("exit 127", 127), ("(", 2), ("exit 1", 1)])
def test_a_gdr_that_is_missing_or_broken_is_mailed_and_drains_nothing(
    night, script, code, tmp_path, monkeypatch
):
    """A shell that cannot read it ends with 2, as a verdict does, but without text."""
    install(tmp_path / "bin", "gdr", script, monkeypatch)

    assert night() == 70
    assert (tmp_path / "mail").read_text().startswith(f"gdr nightly failed: exit code {code}\n")
    assert not (tmp_path / "drained").exists()
