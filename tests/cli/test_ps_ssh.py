"""`gdr ps ssh://` through the system's OpenSSH to a real server on loopback."""

from __future__ import annotations

import json
import os
import shlex
import sys

import pytest

from gdrkit.cli import main
from gdrkit.cli.exit import NO_INPUT
from tests.agent.running.test_processes import IN_A_NAMESPACE, started
from tests.fleet.ssh_daemon import needs_sshd, server
from tests.jobs.running.records import process, record

pytestmark = needs_sshd


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    """A server with a node that runs the script, and nodes that send something else."""
    sent = tmp_path_factory.mktemp("sent") / "record"
    sent.write_text(json.dumps(record(process(701))))
    with server() as running:
        here = shlex.quote(sys.executable)
        running.node("real", {"python3": f'exec {here} "$@"'})
        running.node("recorded", {"python3": f"/bin/cat >/dev/null; exec /bin/cat {shlex.quote(str(sent))}"})
        running.node("bare", {"true": "exit 0"})
        running.node("fails", {"python3": "echo 'no such luck' >&2; exit 3"})
        running.node("noisy", {"python3": "/bin/cat >/dev/null; echo '\\033[2JWelcome'"})
        running.configure(dict.fromkeys(("real", "recorded", "bare", "fails", "noisy"), ""))
        yield running


@pytest.fixture(autouse=True)
def reached(sshd, monkeypatch):
    monkeypatch.setenv("PATH", sshd.environment["PATH"])


def test_the_processes_of_another_node_are_shown(capsys):
    assert main(["ps", "ssh://recorded", "--json"]) == 3
    assert [one["pid"] for one in json.loads(capsys.readouterr().out)["processes"]] == [701]


def test_the_real_script_runs_behind_the_real_server(capsys):
    with started(IN_A_NAMESPACE) as child:
        assert main(["ps", "ssh://real", "--pid", str(child.pid), "--json"]) in (0, 3)
    document = json.loads(capsys.readouterr().out)

    assert [one["pid"] for one in document["processes"]] == [child.pid]
    assert document["as_root"] is (os.geteuid() == 0)


def test_a_node_is_watched(capsys):
    assert main(["watch", "ssh://recorded", "--count", "2", "--interval", "1"]) == 3
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("bare", "python3 not found on ssh://bare"),
        ("fails", "gdr ps failed on ssh://fails: no such luck"),
        ("noisy", "not a record of processes"),
    ],
)
def test_a_node_that_does_not_answer_is_one_line(capsys, name, why):
    assert main(["ps", f"ssh://{name}"]) == NO_INPUT
    err = capsys.readouterr().err

    assert err.startswith(f"gdr ps: {why}") and "\x1b" not in err
