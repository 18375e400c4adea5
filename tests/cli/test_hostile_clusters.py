"""Slurm, Kubernetes and Ray whose answers an attacker writes: no option, no escape, no endless list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdrkit.cli import main
from gdrkit.cli.exit import NO_INPUT, UNKNOWN
from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.hostlist import NODES_LIMIT
from gdrkit.fleet.kubernetes import Kubectl, Kubernetes, _Pods
from gdrkit.fleet.ray import Ray
from gdrkit.fleet.ray_api import RayApi, job_log_lines
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


@pytest.mark.parametrize(("program", "engine"), [("kubectl", "kubernetes"), ("sinfo", "slurm")])
def test_an_endless_complaint_is_cut(answers, tmp_path, capsys, program, engine):
    answers(program, b"")
    (tmp_path / "bin" / program).write_text(
        "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x >&2\nexit 1\n"
    )
    assert main(["fleet", "doctor", f"--{engine}", "--timeout", "5"]) == NO_INPUT
    error = capsys.readouterr().err

    assert "failed: xxx" in error and len(error) < 6000


TOKENS = (
    b"1" + b"0" * 5000, b"1e999", b"NaN", b"Infinity", b"18446744073709551616", b"null", b"true", b"[]",
    b"{}", b'"\\ud800"', b'"\xff"', b'"\\u0000"', b'"\x1b[2J"', b"[" * 200_000, b'{"a":' * 100_000,
    b"[" * 900 + b"]" * 900, b'"' + b"x" * (1 << 20) + b'"', b'{"name":"a","name":7}',
)  # fmt: skip
"""Numbers without an end, what is not a number, other types, halves of characters, brackets, a key twice."""
ANSWERS = {
    "nodes": {"items": [{
        "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x", "message": "y"}]},
    }]},
    "pods": {"items": [{"metadata": {"name": "p"}, "status": {
        "phase": "Pending", "reason": "x", "message": "y",
        "containerStatuses": [{"state": {"waiting": {"reason": "x"}, "terminated": {"exitCode": 3}}}],
    }}]},
    "ray": {"data": {"result": {"total": 1, "result": [
        {"node_id": "a", "node_ip": "10.0.0.1", "node_name": "n1", "state": "DEAD", "state_message": "x"},
    ]}}},
    "job": {"status": "FAILED", "message": "x"},
    "log": {"logs": 'gdr {"a":1}\n'},
}  # fmt: skip


def with_token(value: object, token: bytes) -> Iterator[bytes]:
    """The JSON with this token in each place, and behind each key once more."""
    if isinstance(value, dict):
        for key, part in value.items():
            rest = b"".join(b",%s:%s" % (json.dumps(k).encode(), json.dumps(v).encode())
                            for k, v in value.items() if k != key)  # fmt: skip
            name = json.dumps(key).encode()
            for changed in with_token(part, token):
                yield b"{%s:%s%s}" % (name, changed, rest)
            yield b"{%s:%s,%s:%s%s}" % (name, json.dumps(part).encode(), name, token, rest)
    elif isinstance(value, list):
        for changed in with_token(value[0], token):
            yield b"[%s]" % changed
    yield token


def read_as(kind: str, content: bytes) -> str:
    """What is shown of an answer."""
    if kind in ("nodes", "pods"):
        kubectl = Kubectl()
        kubectl.call = lambda *_, **__: (0, content, "")  # type: ignore[method-assign]
        if kind == "pods":
            return str([(one.why_failed, one.runs) for one in kubectl.listed(_Pods, "pods").items])
        cluster = Kubernetes()
        cluster._kubectl = kubectl
        return str((cluster.nodes(), cluster.down()))
    api = RayApi("http://localhost:1", {})
    api._call = lambda *_, **__: content  # type: ignore[method-assign]
    if kind == "ray":
        return str(api.nodes())
    return str(api.state("gdr") if kind == "job" else job_log_lines(api.log("gdr"), "gdr", dict))


@pytest.mark.parametrize("kind", ANSWERS)
def test_any_token_in_any_place_is_read_or_refused_in_one_line(answers, kind):
    answers("kubectl", b"")
    read = 0
    with within(60):
        for token in TOKENS:
            for content in with_token(ANSWERS[kind], token):
                try:
                    read += bool(read_as(kind, content))
                except TargetError as error:
                    assert len(str(error).splitlines()) == 1
    assert read


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
