"""Slurm: which nodes there are, which ones can be asked, and how. Here sinfo and srun are scripts."""

import pytest

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.run import Run
from gdrkit.fleet.slurm import Slurm, parse_states
from tests.fleet.programs import install

STATES = """gpu001 idle
gpu002 mixed
gpu003 down*
gpu004 drained
gpu001 idle
gpu005 allocated#
"""


@pytest.fixture(autouse=True)
def outside_an_allocation(monkeypatch):
    for name in ("SLURM_JOB_NODELIST", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def sinfo(tmp_path, monkeypatch):
    install(tmp_path / "bin", "sinfo", f"echo \"$@\" >{tmp_path}/words; cat <<'E'\n{STATES}E", monkeypatch)
    return tmp_path / "words"


def test_each_node_has_its_state_once():
    assert parse_states(STATES) == {
        "gpu001": "idle", "gpu002": "mixed", "gpu003": "down*", "gpu004": "drained", "gpu005": "allocated#"
    }  # fmt: skip
    assert parse_states("slurm_load_partitions: error\n\n") == {"slurm_load_partitions:": "error"}


def test_nodes_that_are_down_or_drained_are_rows_and_are_not_asked(sinfo, tmp_path, monkeypatch):
    install(tmp_path / "bin", "srun", 'echo "srun: error: $3 busy" >&2; exit 1', monkeypatch)
    slurm, rows = Slurm(partition="h100"), []
    assert Run(slurm, str(tmp_path)).ask(slurm.nodes(), rows.append)

    said = {row.name: row.summary for row in rows}
    assert said["gpu003"] == "Slurm has it as down*" and said["gpu004"] == "Slurm has it as drained"
    assert "srun failed: srun: error: --nodelist=gpu001 busy" in said["gpu001"]
    assert len(said) == 5 and "--partition=h100" in sinfo.read_text()


def test_in_an_allocation_its_nodes_are_asked_by_steps_that_share_its_resources(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[001-002,007]")
    monkeypatch.setenv("SLURM_JOB_ID", "17")

    assert Slurm().nodes() == ["gpu001", "gpu002", "gpu007"]
    assert "--overlap" in Slurm().command("gpu001", "true")
    assert Slurm(["login1"]).nodes() == ["login1"]


def test_elsewhere_a_job_asks_for_no_gpu():
    words = Slurm(partition="h100").command("gpu001", "python3 -")

    assert "--gres=none" in words and "--overlap" not in words and "--partition=h100" in words
    assert words[-3:] == ["sh", "-c", "python3 -"]


@pytest.mark.parametrize(
    ("script", "why"), [("echo no cluster >&2; exit 1", "no cluster"), ("exit 3", "exit code 3")]
)
def test_a_cluster_that_does_not_answer_is_an_error(tmp_path, monkeypatch, script, why):
    install(tmp_path / "bin", "sinfo", script, monkeypatch)

    with pytest.raises(TargetError, match=why):
        Slurm().nodes()


def test_without_slurm_the_error_names_the_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(TargetError, match="sinfo is not installed here"):
        Slurm().nodes()
