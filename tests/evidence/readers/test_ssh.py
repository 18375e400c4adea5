"""Collecting over ssh. Here `ssh` is a script that runs the command on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdrkit.evidence import ssh
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.target import open_host
from tests.evidence.readers.tars import sos_bytes
from tests.work import within

PYTHON_PROGRAM = """
import sys
assert sys.argv[1:] == ['-o', '-', '--no-probe'], sys.argv
print('half way', file=sys.stderr)
"""


@pytest.fixture
def fake_ssh(tmp_path, monkeypatch):
    """A function that installs a fake ssh, which records its arguments and then runs a shell script."""

    def make(script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "ssh"
        program.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/words\nfor last; do :; done\n{script}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return tmp_path / "words"

    return make


def sends(data: bytes) -> bytes:
    """A program that replaces the collector and sends these bytes."""
    return f"{PYTHON_PROGRAM}sys.stdout.buffer.write({data!r})".encode()


def test_the_program_is_sent_and_the_bundle_received(fake_ssh, monkeypatch, capsys):
    words = fake_ssh('exec sh -c "$last"')
    monkeypatch.setattr(ssh, "collector_program", lambda: sends(sos_bytes()))
    host = open_host("ssh://admin@node1:2222")

    assert host.source == "ssh"
    assert host.read("etc/os-release") == b"ID=debian\n"
    assert capsys.readouterr().err == "half way\n"
    given = words.read_text().splitlines()
    assert given[-3:] == ["--", "node1", "python3 -I - -o - --no-probe"]
    assert [*given[given.index("-p") :][:2], *given[given.index("-l") :][:2]] == [
        "-p",
        "2222",
        "-l",
        "admin",
    ]
    assert "BatchMode=yes" in given
    assert not any("HostKey" in word or "KnownHosts" in word for word in given)


def test_a_large_program_and_a_large_bundle_do_not_deadlock(fake_ssh, monkeypatch):
    fake_ssh('exec sh -c "$last"')
    padding = b"#" + b"x" * 3_000_000 + b"\n"
    data = "sos_bytes(member('sosreport-x/lib/big', bytes(5_000_000)))"
    program = padding + PYTHON_PROGRAM.encode()
    program += f"sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n".encode()
    program += b"from tests.evidence.readers.tars import member, sos_bytes\n"
    monkeypatch.setattr(
        ssh, "collector_program", lambda: program + f"sys.stdout.buffer.write({data})".encode()
    )

    assert len(open_host("ssh://node1").read("lib/big")) == 5_000_000


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'sh: 1: python3: not found' >&2; exit 127", "python3 not found on ssh://node1"),
        (
            "echo 'ssh: connect to host node1 port 22: Connection refused' >&2; exit 255",
            "cannot connect to ssh://node1: ssh: connect to host node1 port 22: Connection refused",
        ),
        (
            "cat >/dev/null; echo 'Permission denied: /proc/keys' >&2; exit 1",
            "gdr collect failed on ssh://node1: Permission denied: /proc/keys",
        ),
        ("echo 'what for' >&2; echo ' that' >&2; exit 1", "gdr collect failed on ssh://node1: what for"),
        ("exit 255", "cannot connect to ssh://node1: ssh failed"),
        ("exit 0", "gdr collect failed on ssh://node1: exit code 0"),
        (
            "printf '\\033[31mbanner\\033[0m\\n' >&2; exit 255",
            "cannot connect to ssh://node1: [31mbanner[0m",
        ),
        ("echo Welcome to node1; exit 0", "not a bundle: ssh://node1 sent: Welcome to node1"),
        ("printf 'a\\033[31m\\001b\\n'; exit 0", "not a bundle: ssh://node1 sent: a[31mb"),
        (
            "echo hello; head -c 4096 /dev/urandom | gzip; exit 0",
            "not a bundle: ssh://node1 sent: hello",
        ),
        ("printf '\\377\\377'; exit 0", "not a bundle: ssh://node1 sent: no text"),
        ("echo 'sh: 1: sudo: not found' >&2; exit 127", "sudo not found on ssh://node1"),
        ("printf '%079d %d' 0 12; exit 0", f"not a bundle: ssh://node1 sent: {'0' * 79}"),
    ],
)
def test_a_failure_is_one_line_that_quotes_the_remote_error(fake_ssh, script, message):
    fake_ssh(script)
    with pytest.raises(TargetError) as error:
        open_host("ssh://node1")

    assert str(error.value) == message
    assert "\n" not in str(error.value)
    assert error.value.hint


def test_a_machine_that_never_answers_times_out(fake_ssh, monkeypatch):
    fake_ssh("exec sleep 60")
    monkeypatch.setattr(ssh, "COLLECT_TIMEOUT_S", 0.3)
    with pytest.raises(TargetError, match="within"):
        open_host("ssh://node1")


def test_output_beyond_the_limit_is_stopped(fake_ssh, monkeypatch):
    fake_ssh("exec cat /dev/zero")
    monkeypatch.setattr(ssh, "BUNDLE_LIMIT_BYTES", 10_000_000)
    with pytest.raises(TargetError, match="not a bundle"):
        open_host("ssh://node1")


def test_without_ssh_the_hint_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetError) as error:
        open_host("ssh://node1")
    assert error.value.hint == "install openssh-client"


@pytest.mark.parametrize(
    "target",
    [
        "ssh://",
        "ssh://-oProxyCommand=x",
        "ssh://a b",
        "ssh://-l@host",
        "ssh://host:-1",
        "ssh://host/etc",
        "ssh://h\n",
    ],
)
def test_a_target_that_could_be_an_option_is_refused(fake_ssh, target):
    words = fake_ssh("exit 0")
    with pytest.raises(TargetError, match="not a valid ssh target"):
        open_host(target)
    assert not words.exists()


def test_ipv6_addresses_are_given_without_brackets(fake_ssh):
    words = fake_ssh("exit 255")
    with pytest.raises(TargetError):
        open_host("ssh://[fe80::1%eth0]:22")
    assert "fe80::1%eth0" in words.read_text().splitlines()


def test_the_program_is_one_source_text_that_any_python_runs():
    """It contains the collector's archive, and imports it from memory."""
    program = ssh.collector_program()
    compile(program, "program", "exec")
    python = subprocess.run(
        [sys.executable, "-I", "-", "--help"], input=program, capture_output=True, timeout=60
    )

    assert b"ModuleNotFoundError" not in python.stderr
    assert b"usage" in python.stdout.lower()


def test_collecting_from_this_machine_over_ssh(fake_ssh):
    fake_ssh('exec sh -c "$last"')
    host = open_host("ssh://localhost")

    assert host.record.manifest.schema == "gdrkit.bundle/1"
    assert host.read("proc/sys/kernel/osrelease").decode().strip() == os.uname().release


HOSTILE = {
    "no newline": "head -c 300000000 /dev/zero | tr '\\0' x >&2; exit 3",
    "many lines": "yes evil | head -c 100000000 >&2; exit 3",
}


@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE)
def test_an_endless_complaint_is_shown_in_part(fake_ssh, script, capsys):
    fake_ssh(script)
    with within(60), pytest.raises(TargetError) as error:
        open_host("ssh://node1")

    assert len(str(error.value)) < 1200
    assert len(capsys.readouterr().err) < 2 * ssh.SHOWN_LIMIT_BYTES


@pytest.mark.parametrize(
    "script",
    [
        "while :; do printf x; sleep 0.05; done",
        "while :; do printf x >&2; done",
        "sleep 60 & exit 0",
        "trap '' TERM; sleep 60",
    ],
)
def test_a_machine_that_keeps_the_line_open_times_out(fake_ssh, monkeypatch, script):
    fake_ssh(script)
    monkeypatch.setattr(ssh, "COLLECT_TIMEOUT_S", 1)
    with within(10), pytest.raises(TargetError, match="timed out"):
        open_host("ssh://node1")


def test_an_error_that_another_process_keeps_open_does_not_delay_the_bundle(fake_ssh, monkeypatch):
    """As with ControlPersist: ssh leaves a process behind that holds standard error."""
    fake_ssh('sleep 60 >/dev/null & exec sh -c "$last"')
    monkeypatch.setattr(ssh, "collector_program", lambda: sends(sos_bytes()))
    with within(10):
        assert open_host("ssh://node1").read("etc/os-release") == b"ID=debian\n"


def test_lines_of_the_other_machine_are_shown_whole_cut_and_counted(capsys):
    lines = ssh._RemoteLines()
    lines.add(b"first\nsec")
    lines.add(b"ond\n\n \x1b[31m\x07red\r\nlast")
    assert capsys.readouterr().err == "first\nsecond\n [31mred\n"
    assert (list(lines.kept), lines.left) == (["first", "second"], ssh.SHOWN_LIMIT_BYTES - 5 - 6 - 11)
    lines.end()
    assert (lines.kept[-1], capsys.readouterr().err) == ("last", "last\n")
    lines.end()
    assert capsys.readouterr().err == ""
    lines.add(b"x" * ssh.LINE_LIMIT_BYTES)
    assert capsys.readouterr().err == ""  # it may go on
    lines.add(b"y")
    assert capsys.readouterr().err == "x" * ssh.LINE_LIMIT_BYTES + "\n"
    lines.left = 3
    lines.add(b"abc\nhidden\nalso\n")
    assert capsys.readouterr().err == "abc\n"
    assert (lines.left, lines.kept[-1]) == (-10, "also")
    lines.add(b"hidden too\nthe last word\n")
    assert (capsys.readouterr().err, lines.kept[-1]) == ("", "the last word")
    lines.add(b"hidden too\nunfinished")
    assert lines.kept[-1] == "hidden too"


def test_the_rest_of_an_error_is_shown_in_part(monkeypatch, capsys):
    monkeypatch.setattr(ssh, "REST_S", 10)
    for limit, shown in ((1 << 15, "one\ntwo\nthree\n"), (3, "one\n")):
        monkeypatch.setattr(ssh, "SHOWN_LIMIT_BYTES", limit)
        reader, writer = os.pipe()
        os.write(writer, b"one\ntwo\nthree")
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            ssh._receive_rest(pipe, ssh._RemoteLines())
        assert capsys.readouterr().err == shown


def test_the_rest_ends_at_the_limit_though_more_may_come(monkeypatch, capsys):
    monkeypatch.setattr(ssh, "SHOWN_LIMIT_BYTES", 3)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as pipe, os.fdopen(writer, "wb", 0) as more:
        more.write(b"one\n")
        monkeypatch.setattr(ssh, "REST_S", 300)
        with within(60):
            ssh._receive_rest(pipe, ssh._RemoteLines())
    assert capsys.readouterr().err == "one\n"


def test_the_limits():
    assert (ssh.BUNDLE_LIMIT_BYTES, ssh.LINE_LIMIT_BYTES, ssh.SHOWN_LIMIT_BYTES) == (1 << 30, 1000, 1 << 15)
    assert (ssh.BLOCK_BYTES, ssh.KEPT_LINES) == (1 << 16, 12)
