"""The kernel's log, read as the kernel hands it out and told as dmesg tells it."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess

import pytest

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.evidence.kernel_log import DEVICE, as_lines, dmesg
from gdrkit.evidence.live import LiveHost
from gdrkit.facts.commands import DMESG
from gdrkit.facts.kernel_log import lines, parse
from gdrkit.node import Node

BANNER = b"5,0,0,-;Linux version 6.8.0 (gcc) #1 SMP\n"


def told(*records: bytes) -> str:
    return b"".join(as_lines(iter(records))).decode()


def test_a_record_becomes_a_line_with_its_time_in_seconds():
    assert told(BANNER, b"6,1,12345678,-;nvidia: loading\n") == (
        "[    0.000000] Linux version 6.8.0 (gcc) #1 SMP\n[   12.345678] nvidia: loading\n"
    )


def test_fields_and_continuation_lines_of_a_record_are_left_out():
    record = b"6,1,5,-,caller=T1;mlx5_core 0000:18:00.0: up\n SUBSYSTEM=pci\n DEVICE=+pci:0000:18:00.0\n"
    assert told(record) == "[    0.000005] mlx5_core 0000:18:00.0: up\n"


def test_a_message_of_several_lines_has_its_time_before_each_and_escapes_are_undone():
    record = rb"6,1,5,-;one\x0atwo \x5c 5 \xc2\xb5s" + b"\n"
    assert told(record) == "[    0.000005] one\n[    0.000005] two \\ 5 µs\n"


def test_a_semicolon_in_the_text_stays():
    assert told(b"6,1,5,-;a;b\n") == "[    0.000005] a;b\n"


def test_a_gap_in_the_sequence_makes_the_log_incomplete():
    whole = (BANNER, b"6,1,5,-;one\n", b"6,2,6,-;two\n")
    assert parse(told(*whole), "dmesg").complete
    assert not parse(told(whole[0], whole[2]), "dmesg").complete
    assert "** 1 printk messages dropped **" in told(whole[0], whole[2])


def test_a_ring_that_has_lost_its_beginning_is_incomplete_too():
    assert not parse(told(b"6,4711,5000000,-;one\n"), "dmesg").complete


def test_it_says_what_dmesg_says():
    """util-linux as the witness, on messages of one line: it prints further lines without a time."""
    if shutil.which("dmesg") is None:
        pytest.skip("needs dmesg: apt install util-linux")
    try:
        ours = dmesg().decode("utf-8", "replace").splitlines()
    except OSError as error:
        pytest.skip(f"needs a readable /dev/kmsg: {error.strerror}; try as root")
    done = subprocess.run(["dmesg", "--color=never"], capture_output=True, check=True)
    theirs = done.stdout.decode("utf-8", "replace").splitlines()
    assert [line for line in theirs if line.startswith("[") and "\\x" not in line][:500] == [
        line for line in ours if line in set(theirs)
    ][:500]
    assert len(ours) > 10


@pytest.fixture
def no_programs(monkeypatch, tmp_path):
    """No program is found but those of the administrator, and dmesg is none of them."""
    monkeypatch.setenv("PATH", str(tmp_path))


def refuse(monkeypatch, number: int) -> None:
    """Let the kernel refuse to open its log with this error."""
    whole = os.open

    def opened(path, *more, **named):
        if path == DEVICE:
            raise OSError(number, os.strerror(number))
        return whole(path, *more, **named)

    monkeypatch.setattr(os, "open", opened)


def test_no_child_is_started_for_it(no_programs):
    try:
        ours = dmesg()
    except OSError as error:
        pytest.skip(f"needs a readable /dev/kmsg: {error.strerror}; try as root")
    assert LiveHost().run(DMESG).startswith(ours[:200])


def test_who_may_not_read_it_is_told_so_without_a_child(monkeypatch):
    refuse(monkeypatch, errno.EPERM)
    with pytest.raises(EvidenceMissing) as caught:
        LiveHost().run(DMESG)

    assert caught.value.missing.why is MissingReason.DENIED
    assert caught.value.missing.ask.startswith("sudo dmesg")


def test_where_there_is_no_such_device_dmesg_is_asked(monkeypatch, tmp_path):
    program = tmp_path / "dmesg"
    program.write_text("#!/bin/sh\necho '[    0.000000] Linux version 6.8.0'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    refuse(monkeypatch, errno.ENOENT)

    assert lines(Node(LiveHost())).complete
