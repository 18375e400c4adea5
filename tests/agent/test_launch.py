"""A second gdrkit, here or over ssh, runs no foreign code."""

import os
import subprocess

import pytest

from gdrkit.agent.launch import is_destination, isolated, program_path, ssh


@pytest.mark.parametrize(
    "name", ["node17", "root@node-17.example", "192.0.2.7", "[2001:db8::7]", "2001:db8::7", "a_b@x"]
)
def test_hosts_and_users(name):
    assert is_destination(name)


@pytest.mark.parametrize(
    "name",
    [
        "-oProxyCommand=touch x",
        "root@-oProxyCommand=x",
        "-x@node",
        "",
        "a b",
        "a;id",
        "a\nb",
        "$(id)",
        "a/b",
        "x`id`",
    ],
)
def test_options_and_commands_are_no_hosts(name):
    assert not is_destination(name)
    with pytest.raises(ValueError, match="not a host"):
        ssh(name, "true")


def test_ssh_is_asked_to_bring_nothing_along_and_hears_of_no_options_behind_the_host():
    words = ssh("root@[2001:db8::7]", "true", "2222")
    assert words[-3:] == ["--", "2001:db8::7", "true"]
    assert {"-a", "-x", "ClearAllForwardings=yes", "PermitLocalCommand=no", "BatchMode=yes"} <= set(words)
    assert words[words.index("-l") + 1] == "root" and words[words.index("-p") + 1] == "2222"


def test_a_hostile_module_in_the_current_folder_or_the_environment_is_not_imported(tmp_path):
    for name in ("json", "struct", "socket", "gdrkit"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w').close()\n")
    done = subprocess.run(
        isolated("gdrkit.transport.measure.counters_process"),
        input=b"",
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("path", ["", ":", ".", "bin:./bin", ":{absent}:"])
def test_a_program_in_the_current_folder_is_none(path, tmp_path, monkeypatch):
    """An empty entry of PATH is the current folder, too."""
    for folder in (tmp_path, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "ssh").write_text("#!/bin/sh\n")
        (folder / "ssh").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path.format(absent=tmp_path / "absent"))
    with pytest.raises(FileNotFoundError):
        program_path("ssh")
    monkeypatch.setenv("PATH", f"{path}:{tmp_path / 'bin'}")
    assert program_path("ssh") == str(tmp_path / "bin" / "ssh")
