"""Slurm: which nodes there are, which ones can be asked, and how. Here sinfo and srun are scripts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.hostlist import is_name
from gdrkit.fleet.run import Run
from gdrkit.fleet.slurm import Slurm, parse_addresses, parse_states
from tests.fleet.programs import install

STATES = """gpu001 idle none
gpu002 mixed none
gpu003 down* Not responding
gpu004 drained cable of leaf 4
gpu001 idle none
gpu005 allocated# none
gpu006 idle~ none
gpu007 idle* none
"""
TASK = "srun: error: n1: task 0:"


@pytest.fixture(autouse=True)
def outside_an_allocation(monkeypatch):
    for name in ("SLURM_JOB_NODELIST", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def sinfo(tmp_path, monkeypatch):
    install(tmp_path / "bin", "sinfo", f"echo \"$@\" >{tmp_path}/words; cat <<'E'\n{STATES}E", monkeypatch)
    return tmp_path / "words"


def test_each_node_has_its_state_once():
    assert {node: state.state for node, state in parse_states(STATES).items()} == {
        "gpu001": "idle", "gpu002": "mixed", "gpu003": "down*", "gpu004": "drained", "gpu005": "allocated#",
        "gpu006": "idle~", "gpu007": "idle*",
    }  # fmt: skip
    assert parse_states("slurm_load_partitions: error\n\n") == {}


@pytest.mark.parametrize("name", ["-oProxyCommand=id", "gpu1,gpu2", "gpu1;id", "n" * 254, "gpu\u0661"])
def test_what_cannot_be_the_name_of_a_node_is_none(name):
    assert list(parse_states(f"{name} idle none\ngpu1 idle none\n")) == ["gpu1"]


@given(st.text())
def test_any_output_of_sinfo_is_read_or_ignored(text):
    for node, state in parse_states(text).items():
        assert is_name(node) and state.state and isinstance(state.out(), str)


def test_nodes_that_are_down_or_drained_are_rows_and_are_not_asked(sinfo, tmp_path, monkeypatch):
    install(tmp_path / "bin", "srun", 'echo "srun: error: $3 busy" >&2; exit 1', monkeypatch)
    slurm, rows = Slurm(partition="h100"), []
    assert Run(slurm, str(tmp_path)).ask(slurm.nodes(), rows.append)

    said = {row.name: row.summary for row in rows}
    assert said["gpu003"] == "Slurm has it as down*: Not responding"
    assert said["gpu004"] == "Slurm has it as drained: cable of leaf 4"
    assert said["gpu006"] == "Slurm has it as idle~: powered off"  # a job would start it
    assert said["gpu007"] == "Slurm has it as idle*: not responding"
    assert "srun failed: srun: error: --nodelist=gpu001 busy" in said["gpu001"]
    assert len(said) == 7 and "--partition=h100" in sinfo.read_text()


def test_in_an_allocation_its_nodes_are_asked_by_steps_that_share_its_resources(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[001-002,007]")
    monkeypatch.setenv("SLURM_JOB_ID", "17")

    assert Slurm().nodes() == ["gpu001", "gpu002", "gpu007"]
    assert "--overlap" in Slurm().command("gpu001", "true")
    assert Slurm(["login1"]).nodes() == ["login1"]


def test_an_allocation_has_no_other_partition(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "17")

    with pytest.raises(TargetError, match="an allocation has nodes of its own"):
        Slurm(partition="h100").nodes()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("sudo: a password is required", f"{TASK} Exited with exit code 1"), "sudo: a password"),
        (("collecting files", "slurmstepd: error: STEP", f"{TASK} Killed"), f"srun failed: {TASK} Killed"),
        (("srun: job 3 queued", "srun: error: Requested nodes are busy"), "Requested nodes are busy"),
        (("srun: error: Unable to allocate", "srun: job 3 has been revoked"), "failed: srun: error: Unable"),
        ((f"{TASK} Exited with exit code 2",), "Exited with exit code 2"),
        ((), "srun failed: exit code 2"),
    ],
)  # fmt: skip
def test_the_reason_is_that_of_the_program_else_that_of_srun(lines, why):
    assert why in str(Slurm().failure("n1", 2, lines))


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


def test_scancel_gets_numbers_of_steps_and_no_option(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    launcher = Slurm()
    name = next(word for word in launcher.command("n1", "true") if word.startswith("--job-name="))[11:]
    lines = f"--user=root {name}\n-u {name}\n7.0 another\n7.3 {name}\n7_2.1 {name}\n"
    install(tmp_path / "bin", "squeue", f"cat <<'E'\n{lines}E", monkeypatch)
    install(tmp_path / "bin", "scancel", f'echo "$@" >{tmp_path}/words', monkeypatch)
    launcher.clean()
    assert (tmp_path / "words").read_text().split() == ["--quiet", "7.3", "7_2.1"]


def test_an_address_that_can_be_none_is_left_out():
    listed = "gpu1 10.0.0.1\ngpu2 -oProxyCommand=id\n-x 10.0.0.3\ngpu4 a b\ngpu5\ngpu6 node-6.example\n"
    assert parse_addresses(listed) == {"gpu1": "10.0.0.1", "gpu6": "node-6.example"}
