"""The command `gdr explain`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

GDR = Path(sys.executable).parent / "gdr"
EINVAL = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"


def gdr(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([GDR, "explain", *arguments], input=stdin, capture_output=True, text=True)


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_standard_input_is_read_without_a_file_name(arguments):
    answer = gdr(*arguments, stdin=EINVAL)

    assert answer.returncode == 3
    assert "peermem-stub" in answer.stdout


def test_a_file_gives_json(tmp_path):
    post = tmp_path / "post.txt"
    post.write_text(EINVAL)

    document = json.loads(gdr(str(post), "--json").stdout)

    assert document["schema"] == "gdrkit.explanation/1"
    assert document["machines"][0]["open"][0]["line"] == 1


def test_quiet_prints_nothing():
    answer = gdr("-q", stdin=EINVAL)

    assert (answer.returncode, answer.stdout) == (3, "")


def test_verbose_prints_more():
    assert len(gdr("-v", stdin=EINVAL).stdout) > len(gdr(stdin=EINVAL).stdout)


def test_empty_input_is_refused():
    answer = gdr()

    assert answer.returncode == 66
    assert "no text: the input is empty" in answer.stderr


def test_a_nonexistent_file_is_reported_in_one_line():
    answer = gdr("/nonexistent/post.txt")

    assert answer.returncode == 66
    assert answer.stderr.splitlines() == ["gdr explain: /nonexistent/post.txt: no such file or directory"]


def test_a_terminal_as_input_gets_a_hint():
    reader, writer = pty.openpty()
    answer = subprocess.run([GDR, "explain"], stdin=writer, capture_output=True, text=True, timeout=20)
    os.close(reader)
    os.close(writer)

    assert answer.returncode == 66
    assert "dmesg | gdr explain" in answer.stderr
