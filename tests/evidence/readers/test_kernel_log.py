"""The kernel log is read from /dev/kmsg and formatted as dmesg does."""

from __future__ import annotations

import errno
import os
import subprocess

import pytest

from gdrkit.agent.collect import subprocesses
from gdrkit.evidence import EvidenceMissing, MissingReason, kernel_log
from gdrkit.evidence.kernel_log import DEVICE, as_lines, dmesg
from gdrkit.evidence.live import LiveHost
from gdrkit.facts.commands import DMESG
from gdrkit.facts.kernel_log import lines, parse
from gdrkit.node import Node
from tests.system_programs import program
from tests.work import open_files

BANNER = b"5,0,0,-;Linux version 6.8.0 (gcc) #1 SMP\n"


def formatted(*records: bytes) -> str:
    return b"".join(as_lines(iter(records))).decode()


def test_a_record_becomes_a_line_with_a_time_in_seconds():
    assert formatted(BANNER, b"6,1,12345678,-;nvidia: loading\n") == (
        "[    0.000000] Linux version 6.8.0 (gcc) #1 SMP\n[   12.345678] nvidia: loading\n"
    )


def test_fields_and_continuation_lines_of_a_record_are_left_out():
    record = b"6,1,5,-,caller=T1;mlx5_core 0000:18:00.0: up\n SUBSYSTEM=pci\n DEVICE=+pci:0000:18:00.0\n"
    assert formatted(record) == "[    0.000005] mlx5_core 0000:18:00.0: up\n"


def test_further_lines_of_a_message_are_indented_and_escapes_are_decoded():
    record = rb"6,1,5,-;one\x0atwo \x5c 5 \xc2\xb5s" + b"\n"
    assert formatted(record) == "[    0.000005] one\n               two \\ 5 µs\n"


def test_a_semicolon_in_the_text_is_kept():
    assert formatted(b"6,1,5,-;a;b\n") == "[    0.000005] a;b\n"


@pytest.mark.parametrize(
    "other", [b"text\n", b"6;text\n", b"6,x,5,-;text\n", b"6,1,,-;text\n", b"6,%d,5,-;text\n" % 10**20]
)
def test_what_is_no_record_is_passed_over(other):
    assert formatted(b"6,1,5,-;one\n", other, b"6,2,6,-;two\n") == (
        "[    0.000005] one\n[    0.000006] two\n"
    )


def test_a_sequence_number_has_up_to_twenty_digits():
    """As many as 64 bits have."""
    assert formatted(b"6,%d,5,-;one\n" % (2**64 - 1)) == "[    0.000005] one\n"


def test_a_gap_in_the_sequence_makes_the_log_incomplete():
    whole = (BANNER, b"6,1,5,-;one\n", b"6,2,6,-;two\n")
    assert parse(formatted(*whole), "dmesg").complete
    assert not parse(formatted(whole[0], whole[2]), "dmesg").complete
    assert "** 1 printk messages dropped **" in formatted(whole[0], whole[2])


def test_a_log_without_its_beginning_is_incomplete():
    assert not parse(formatted(b"6,4711,5000000,-;one\n"), "dmesg").complete


def test_the_output_equals_that_of_dmesg():
    """util-linux prints escapes for what is not text, and leaves out blanks at the end."""
    path = program("dmesg")
    try:
        ours = dmesg().decode("utf-8", "replace").split("\n")
    except OSError as error:
        pytest.skip(f"needs a readable /dev/kmsg: {error.strerror}; try as root")
    done = subprocess.run([path, "--color=never"], capture_output=True, check=True)
    theirs = done.stdout.decode("utf-8", "replace").split("\n")
    assert len(ours) >= len(theirs)  # a line more may have come meanwhile
    assert [
        (own, other)
        for own, other in zip(ours, theirs, strict=False)
        if own.rstrip() != other.rstrip() and "\\x" not in other
    ] == []
    assert len(ours) > 10


@pytest.fixture
def no_programs(monkeypatch, tmp_path):
    """PATH is empty, and dmesg is not in the sbin folders that are added to it."""
    monkeypatch.setenv("PATH", str(tmp_path))


def refuse(monkeypatch, number: int) -> None:
    """Make open(2) of the log fail with this error."""
    whole = os.open

    def opened(path, *more, **named):
        if path == DEVICE:
            raise OSError(number, os.strerror(number))
        return whole(path, *more, **named)

    monkeypatch.setattr(os, "open", opened)


def test_no_child_process_is_started(no_programs):
    try:
        ours = dmesg()
    except OSError as error:
        pytest.skip(f"needs a readable /dev/kmsg: {error.strerror}; try as root")
    assert LiveHost().run(DMESG).startswith(ours[:200])


def test_a_user_without_permission_gets_denied_without_a_child_process(monkeypatch):
    refuse(monkeypatch, errno.EPERM)
    with pytest.raises(EvidenceMissing) as caught:
        LiveHost().run(DMESG)

    assert caught.value.missing.why is MissingReason.DENIED
    assert caught.value.missing.ask.startswith("sudo dmesg")


def test_dmesg_is_run_if_the_device_does_not_exist(monkeypatch, tmp_path):
    program = tmp_path / "dmesg"
    program.write_text("#!/bin/sh\necho '[    0.000000] Linux version 6.8.0'\n")
    program.chmod(0o755)
    monkeypatch.setattr(subprocesses, "_SEARCH", (str(tmp_path), "/usr/bin", "/bin"))
    refuse(monkeypatch, errno.ENOENT)

    assert lines(Node(LiveHost())).complete


def test_the_limits():
    assert (kernel_log.LOG_LIMIT_BYTES, kernel_log.RECORD_BYTES) == (64 << 20, 8192)


@pytest.mark.parametrize(("limit", "records"), [(19, 2), (20, 2), (21, 3), (40, 4)])
def test_records_are_read_up_to_a_limit(tmp_path, monkeypatch, limit, records):
    """A file in place of the device ends, as a container shows it, and a read of it returns all it may."""
    monkeypatch.setattr(kernel_log, "RECORD_BYTES", 10)
    monkeypatch.setattr(kernel_log, "LOG_LIMIT_BYTES", limit)
    (tmp_path / "kmsg").write_bytes(b"123456789\n" * 4)
    before = open_files()
    assert list(kernel_log._records(str(tmp_path / "kmsg"))) == [b"123456789\n"] * records
    assert open_files() == before


def test_a_record_that_was_overwritten_before_it_was_read_is_passed_over(tmp_path, monkeypatch):
    device = tmp_path / "kmsg"
    device.touch()
    answers = iter([b"first", errno.EPIPE, errno.EPIPE, b"last", errno.EAGAIN, b"later"])

    def read(fd: int, size: int) -> bytes:
        answer = next(answers)
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(os, "read", read)
        records = list(kernel_log._records(str(device)))
    assert records == [b"first", b"last"]


def test_another_error_of_a_read_is_raised(tmp_path):
    """EISDIR: read(2) of a folder."""
    with pytest.raises(IsADirectoryError):
        list(kernel_log._records(str(tmp_path)))
