"""Closed, full and left streams: the verdict's code survives, no traceback, and no code that says well."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.evidence_nodes import laid_down

EVIL = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e"
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
GDR = [sys.executable, "-c", "import sys; from gdrkit.cli import main; sys.exit(main())"]


def gdr(arguments, **streams):
    return subprocess.run([*GDR, *arguments], **{"stdin": subprocess.DEVNULL, "timeout": 60} | streams)


@pytest.fixture(scope="module")
def blocked():
    """A node whose verdict is blocked, and its exit code 2."""
    target = str(laid_down("peermem-blacklisted"))
    assert gdr(["doctor", target], stdout=subprocess.DEVNULL).returncode == 2
    return target


def test_a_verdict_survives_a_reader_that_leaves(blocked):
    reader, writer = os.pipe()
    os.close(reader)
    done = gdr(["doctor", blocked, "-v"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (2, b"")


def test_a_full_disk_is_said_and_has_a_code_of_its_own(blocked):
    with Path("/dev/full").open("w") as full:
        done = gdr(["doctor", blocked], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 74
    assert done.stderr == b"gdr: cannot write to standard output: No space left on device\n"


def test_with_both_streams_full_only_the_code_is_left(blocked):
    with Path("/dev/full").open("w") as full:
        assert gdr(["doctor", blocked], stdout=full, stderr=full).returncode == 74


@pytest.mark.parametrize("redirection, code", [(">&-", 74), ("2>&-", 2), ("<&-", 2), (">&- 2>&-", 74)])
def test_closed_streams(blocked, redirection, code):
    command = f'exec "$@" {redirection}'
    done = subprocess.run(
        ["sh", "-c", command, "sh", *GDR, "doctor", blocked], capture_output=True, timeout=60
    )
    assert done.returncode == code
    assert b"Traceback" not in done.stderr and b"internal error" not in done.stderr


@pytest.mark.parametrize(
    "words",
    ["doctor NODE", "doctor NODE NODE", "topo NODE", "topo NODE --svg", "estimate NODE", "expect NODE",
     "codes", "report NODE -o -", "fleet doctor NODE", "fleet report NODE -o -", "fix NODE", "config alerts",
     "--help", "modprobe nvidia NODE", "explain -"],
)  # fmt: skip
def test_every_command_says_that_its_output_is_closed(words, blocked, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *GDR, *words.replace("NODE", blocked).split()]
    done = subprocess.run(command, input=b"nvidia_peermem: x\n", stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (
        74, [b"gdr: cannot write to standard output: the stream is closed"]
    )  # fmt: skip


def test_quiet_needs_no_output(blocked):
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *GDR, "doctor", "-q", blocked], timeout=60)
    assert done.returncode == 2


def test_a_missing_target_is_said_to_nobody_and_keeps_its_code():
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *GDR, "doctor", "/nope"], timeout=60)
    assert done.returncode == 66


@pytest.mark.parametrize(
    "arguments",
    [["explain"], ["config", "check", "-"], ["nccl"], ["estimate", "--measured", "-"], ["topo", "-"]],
)
@pytest.mark.parametrize("redirection", ["<&-", "</dev/null"])
def test_no_input_is_never_well(arguments, redirection):
    command = f'exec "$@" {redirection}'
    done = subprocess.run(["sh", "-c", command, "sh", *GDR, *arguments], capture_output=True, timeout=60)
    assert done.returncode >= 1
    assert b"Traceback" not in done.stderr and b"internal error" not in done.stderr


def test_input_without_an_end_is_refused():
    with Path("/dev/zero").open("rb") as endless:
        done = gdr(["config", "check", "-"], stdin=endless, capture_output=True)
    assert done.returncode == 66 and b"larger than" in done.stderr


HOSTILE = {
    "explain": [
        "[    1.000000] nvidia_peermem: Unknown symbol ib\x9b31m\u202e\x00 (err -2)",
        "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\x9b\u2066",
    ],
    "nccl": [
        f"h{EVIL}:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4",
        f"h{EVIL}:1:2 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5{EVIL}",
        f"h{EVIL}:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB{EVIL}/0",
        f"h{EVIL}:1:2 [0] NCCL WARN Call to ibv_reg_mr failed with error Bad address{EVIL}",
    ],
    "config check": [
        "apiVersion: nvidia.com/v1",
        "kind: ClusterPolicy",
        f"metadata: {{name: 'x{EVIL}'}}",
        f"'{EVIL}': 1",
    ],
}


@pytest.mark.parametrize("command", HOSTILE)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_nothing_that_a_text_holds_reaches_the_terminal_raw(command, form, tmp_path):
    file = tmp_path / f"x{EVIL.replace('/', '')}"
    file.write_text("\n".join(HOSTILE[command]) + "\n")
    done = gdr([*command.split(), str(file), *form], capture_output=True)
    printed = (done.stdout + done.stderr).decode()
    assert not RAW.search(printed)
    assert re.search(r"\\x1b|\\x9b|\\u001b|\\u009b", printed), "shown, not lost"
    if form:
        json.loads(done.stdout)


NOT_UTF_8 = os.fsdecode(b"x\xff")


@pytest.mark.parametrize(
    "words",
    [
        "doctor NODE NODE --json", "topo NODE --json", "topo NODE --json --env A=NAME",
        "report NODE -o FILE", "report NODE NODE -o FILE", "fleet report NODE -o FILE",
        "fleet doctor NODE --json", "explain LOG --json", "nccl LOG --json", "prove log --log LOG --json",
        "config check LOG --json",
    ],
)  # fmt: skip
def test_a_name_that_is_not_utf_8_is_no_fault(words, blocked, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    node, log, file = (tmp_path / (NOT_UTF_8 + end) for end in ("", ".log", ".html"))
    node.symlink_to(blocked)
    log.write_text("n1:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n")
    for word, value in {"NODE": node, "LOG": log, "FILE": file, "NAME": NOT_UTF_8}.items():
        words = words.replace(word, str(value))
    done = gdr(words.split(), capture_output=True)
    assert done.returncode in (0, 1, 2, 3), done.stderr
    if "--json" in words:
        msgspec.json.decode(done.stdout)
    else:
        assert file.read_text("utf-8").endswith("</html>\n")


@pytest.mark.parametrize("before", ["", "doctor", "doctor --", "codes", "modprobe", "topo", "fix", "config"])
def test_nor_does_what_an_argument_holds(before):
    *words, last = before.split(" ")
    done = gdr([*words, last + EVIL] if last in ("", "--") else [*words, last, EVIL], capture_output=True)
    assert not RAW.search((done.stdout + done.stderr).decode())


def test_on_a_terminal_only_our_own_colours_are_escapes(tmp_path):
    file = tmp_path / "x"
    file.write_text("\n".join(HOSTILE["explain"]) + "\n")
    master, slave = pty.openpty()
    done = gdr(["explain", str(file)], stdout=slave, stderr=slave)
    os.close(slave)
    printed = b""
    try:
        while chunk := os.read(master, 1 << 16):
            printed += chunk
    except OSError:  # EIO: the other end is closed
        os.close(master)
    assert done.returncode in (2, 3)
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed.decode().replace("\r\n", "\n"))
    assert "\x1b[" in printed.decode() and not RAW.search(text)
