"""`gdr doctor ssh://` and `gdr fleet doctor` through the system's OpenSSH to a real server on loopback."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys

import pytest

from gdrkit.cli import main
from gdrkit.cli.exit import NO_INPUT
from tests.fleet.daemons import ADDRESS, free_port, user
from tests.fleet.ssh_daemon import needs_sshd, server

pytestmark = needs_sshd
OLD = "import sys; sys.version_info = (3, 6, 9, 'final', 0); exec(sys.stdin.read())"
REASONS = {
    "stranger": "Host key verification failed",
    "changed": "Host key verification failed",
    "locked": "Permission denied (publickey)",
    "dead": "Connection refused",
    "mute": "timed out",
    "nowhere": "Could not resolve hostname",
    "old": "gdr-collect needs Python 3.8 or later; this is 3.6",
    "bare": "python3 not found",
    "noisy": "not a bundle: ssh://noisy sent: Welcome to noisy",
}
"""What is wrong with a node, by its name, and how its row says it."""


@pytest.fixture(scope="module")
def sshd(bundle):
    sends = {"python3": f"/bin/cat >/dev/null; exec /bin/cat {shlex.quote(str(bundle))}"}
    with server() as running, socket.create_server((ADDRESS, 0)) as mute:
        folder = running.folder
        (folder / "known_hosts").open("a").write(f"changed {_key(folder / 'user.pub')}\n")
        for name in ("good", "behind", "shared", "--1"):  # a colon divides PATH
            running.node(name, sends)
        (running.node("noisy", sends) / ".bashrc").write_text("echo Welcome to noisy\n")
        running.node("bare", {"true": "exit 0"})
        running.node("old", {"python3": f"exec {sys.executable} -c {shlex.quote(OLD)}"})
        running.node("asks", {"sudo": '[ "$1" = -n ] && echo "sudo: a password is required" >&2; exit 1'})
        running.configure(
            {
                **dict.fromkeys(("good", "old", "bare", "noisy", "asks"), ""),
                "stranger": "  HostKeyAlias stranger",
                "changed": "  HostKeyAlias changed",
                "locked": "  PubkeyAuthentication no",
                "dead": f"  Port {free_port()}",
                "mute": f"  Port {mute.getsockname()[1]}",
                "nowhere": "  HostName nowhere.invalid",
                "behind": "  ProxyJump jump",
                "shared": f"  ControlMaster auto\n  ControlPath {folder}/%n\n  ControlPersist 60",
                "::1": "  HostName ::1",
            }
        )
        yield running


def _key(path) -> str:
    return " ".join(path.read_text().split()[:2])


@pytest.fixture(autouse=True)
def environment(sshd, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", sshd.environment["PATH"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def ask(capsys, *words):
    code = main(["fleet", "doctor", *words, "--json"])
    printed = capsys.readouterr()
    rows = json.loads(printed.out)["nodes"]
    return code, {row["name"]: (row["standing"], row["summary"]) for row in rows}


def test_every_node_is_a_row_and_the_reason_is_that_of_ssh(capsys):
    code, found = ask(capsys, "good", *REASONS, "--timeout", "60")

    assert code == 3 and found.pop("good")[0] == "ready"
    assert {name for name, (standing, _) in found.items() if standing == "unreachable"} == set(REASONS)
    assert [name for name, why in REASONS.items() if why not in found[name][1]] == []


@pytest.mark.parametrize("node", sorted(REASONS.keys() - {"mute"}))  # which takes ten seconds
def test_doctor_gives_the_same_reason_and_never_prompts(node, capsys):
    assert main(["doctor", f"ssh://{node}"]) == NO_INPUT
    assert REASONS[node] in capsys.readouterr().err


def test_proxy_jump_a_shared_connection_and_ipv6_are_ssh_s_own(sshd, capsys):
    _, found = ask(capsys, "behind,shared,[::1]")
    control = ["ssh", "-O", "check", "shared"]
    kept = subprocess.run(control, capture_output=True, env=sshd.environment, check=False)
    _, again = ask(capsys, "shared")
    subprocess.run(["ssh", "-O", "exit", "shared"], capture_output=True, env=sshd.environment, check=True)

    assert {standing for standing, _ in (*found.values(), *again.values())} == {"ready"} and len(found) == 3
    assert kept.returncode == 0 and b"Master running" in kept.stderr


@pytest.mark.parametrize(
    "form", ["ssh://good", "ssh://{user}@[::1]:{port}", "ssh://{user}@127.0.0.1:{port}"]
)
def test_doctor_takes_a_name_and_an_address_with_user_and_port(sshd, form, capsys):
    target = form.format(user=user(), port=sshd.port)
    main(["doctor", target, "--json"])

    assert json.loads(capsys.readouterr().out)["node"]["source"] == "ssh"


def test_sudo_is_told_not_to_ask(capsys):
    _, found = ask(capsys, "asks", "--sudo")

    assert found["asks"][1].endswith("sudo: a password is required")


def test_the_real_collector_runs_behind_the_real_server(capsys):
    _, found = ask(capsys, "here")

    assert found["here"][0] not in ("unreachable", "unreadable")
    main(["fleet", "doctor", "--run", "last", "--csv"])
    assert os.uname().release in capsys.readouterr().out
