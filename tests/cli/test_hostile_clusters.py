"""Slurm, Kubernetes and Ray whose answers an attacker writes: no option, no escape, no endless list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdrkit.cli import main
from gdrkit.cli.exit import NO_INPUT, UNKNOWN
from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.hostlist import NODES_LIMIT
from gdrkit.fleet.ray import Ray
from tests.fleet.ray_server import dashboard, node
from tests.work import within

NO_NODES = "there are no nodes"
HOSTILE = (
    *("-oProxyCommand=id", "--nodelist=x", "\x1b[31mn1", "n1\x07", "$(id)", ";id"),
    *("n" * 300, "n[1-999999999]", "[1-9]"),
)
"""Names that no node has: options, escapes, shells, and lists that would fill the memory."""


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Programs of a cluster that print what a test gives them."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()

    def add(name: str, content: bytes, code: int = 0) -> None:
        (tmp_path / f"{name}.out").write_bytes(content)
        program = tmp_path / "bin" / name
        program.write_text(
            f"#!/bin/sh\necho {name} >>{tmp_path}/called\ncat {tmp_path}/{name}.out\nexit {code}\n"
        )
        program.chmod(0o755)

    for name in ("srun", "scancel", "squeue"):
        add(name, b"", 1)
    return add


def listing(*names: object) -> bytes:
    return json.dumps({"items": [{"metadata": {"name": name}, "status": {}} for name in names]}).encode()


def asked(tmp_path: Path) -> list[str]:
    return (tmp_path / "called").read_text().split()


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("engine", ["slurm", "kubernetes"])
def test_what_names_no_node_is_never_asked(answers, tmp_path, capsys, engine, name):
    answers("sinfo", f"{name} idle none\n".encode())
    answers("kubectl", listing(name))
    assert main(["fleet", "doctor", f"--{engine}", "--timeout", "5"]) == NO_INPUT
    output = capsys.readouterr()
    assert NO_NODES in output.err and "\x1b" not in output.out + output.err
    assert set(asked(tmp_path)) <= {"sinfo", "kubectl"}


@pytest.mark.parametrize("engine", ["slurm", "kubernetes"])
def test_more_nodes_than_a_list_may_name_are_refused_at_once(answers, tmp_path, capsys, engine):
    names = [f"n{number}" for number in range(NODES_LIMIT + 1)]
    answers("sinfo", "".join(f"{name} idle none\n" for name in names).encode())
    answers("kubectl", listing(*names))
    assert main(["fleet", "doctor", f"--{engine}", "--timeout", "5"]) == NO_INPUT
    assert f"{NODES_LIMIT + 1:,} nodes: more than {NODES_LIMIT:,}" in capsys.readouterr().err
    assert len(asked(tmp_path)) == 1


@pytest.mark.parametrize("engine", ["slurm", "kubernetes"])
def test_a_list_that_does_not_come_ends_at_the_deadline_of_the_run(answers, tmp_path, capsys, engine):
    for name in ("sinfo", "kubectl"):
        answers(name, b"")
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexec sleep 60\n")
    with within(20):
        assert main(["fleet", "doctor", f"--{engine}", "--timeout", "1"]) == NO_INPUT
    assert "did not end within 1 s" in capsys.readouterr().err


def test_pairs_whose_list_does_not_come_end_at_the_deadline_too(answers, tmp_path, capsys):
    answers("sinfo", b"")
    (tmp_path / "bin" / "sinfo").write_text("#!/bin/sh\nexec sleep 60\n")
    with within(20):
        assert main(["fleet", "bench", "--slurm", "--timeout", "1"]) == NO_INPUT
    assert "did not end within 1 s" in capsys.readouterr().err


def test_a_node_that_is_listed_twice_is_asked_once(answers, tmp_path, capsys):
    answers("sinfo", b"n1 idle none\nn1 idle none\n\xff idle none\n")
    assert main(["fleet", "doctor", "--slurm", "--timeout", "5"]) == UNKNOWN
    assert asked(tmp_path).count("srun") == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"items":' + b"[" * 100_000,
        b'{"items":null}',
        listing(7),
        b'{"items":[{"metadata":{"name":"\xff"}}]}',
    ],
)
def test_an_answer_that_is_no_list_is_one_line(answers, capsys, content):
    answers("kubectl", content)
    assert main(["fleet", "doctor", "--kubernetes", "--timeout", "5"]) == NO_INPUT
    error = capsys.readouterr().err
    assert "kubectl get nodes printed something else" in error and "Traceback" not in error


@pytest.mark.parametrize("name", HOSTILE)
def test_a_node_of_ray_whose_name_is_none_is_called_unknown(name):
    with dashboard() as ray:
        ray.nodes = [node("10.0.0.1", node_name=name, node_ip=name, node_id="id1")]
        assert Ray(ray.address).nodes() == ["unknown"]


@pytest.mark.parametrize("amount", [b"-7", b"1e300"])
def test_what_a_node_of_ray_has_is_not_read(amount):
    """Its memory and GPUs are Ray's word, for which gdr has its own evidence."""
    with dashboard() as ray:
        listed = b'{"data":{"result":{"result":[{"node_id":"a","node_ip":"n1","state":"ALIVE",'
        ray.answer = 200, listed + b'"resources_total":{"GPU":%s}}]}}}' % amount, {}
        assert Ray(ray.address).nodes() == ["n1"]
        ray.answer = 200, listed + b'"resources_total":{"GPU":NaN}}]}}}', {}
        with pytest.raises(TargetError, match="does not answer as Ray does"):
            Ray(ray.address).nodes()
