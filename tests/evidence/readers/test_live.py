"""This machine, read as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, MissingReason, live
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.live import LiveHost
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import PROBE_CUDA, UNAME


def why(error: pytest.ExceptionInfo[EvidenceMissing]) -> MissingReason:
    return error.value.missing.why


def test_no_target_is_this_machine():
    assert open_host(None).source == "live"


def test_files_of_proc_and_sys_are_read_whole():
    """Their size is given as 0 or 4096; only reading to the end tells."""
    assert LiveHost().read("proc/kallsyms") == Path("/proc/kallsyms").read_bytes()
    assert LiveHost().read("proc/sys/kernel/osrelease").decode().strip() == os.uname().release
    assert bytes(LiveHost().map("proc/sys/kernel/osrelease")).decode().strip() == os.uname().release


def test_a_large_file_is_mapped_without_a_copy():
    mapped = LiveHost().map(os.path.realpath(sys.executable).lstrip("/"))

    assert mapped[:4] == b"\x7fELF"
    assert "mmap" in type(mapped.obj).__name__


def test_what_is_not_there_is_absent():
    host = LiveHost()
    for ask in (host.read, host.map, host.list):
        for path in ("sys/no/such/thing", "etc/passwd/below-a-file", "etc/nul\0byte", "etc/" + "x" * 5000):
            with pytest.raises(EvidenceAbsent):
                ask(path)
    assert not host.exists("sys/no/such/thing")
    assert host.exists("etc/passwd")
    assert host.exists("etc")


def test_what_is_denied_says_how_to_see_it(tmp_path, monkeypatch):
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(EvidenceMissing) as error:
        LiveHost().read("proc/keys")

    assert why(error) is MissingReason.DENIED
    assert error.value.missing.ask == "sudo cat /proc/keys"


def test_an_error_of_the_kernel_is_neither_content_nor_absence(monkeypatch):
    """sysfs answers EINVAL for the speed of a port that is down: drivers/infiniband/core/sysfs.c."""

    def refuse(*_: object) -> bytes:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "read", refuse)
    with pytest.raises(EvidenceMissing) as error:
        LiveHost().read("sys/kernel/uevent_seqnum")

    assert not isinstance(error.value, EvidenceAbsent)
    assert "Invalid argument" in error.value.missing.ask


def test_a_fifo_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EvidenceMissing) as error:
        LiveHost().read(str(tmp_path / "pipe").lstrip("/"))

    assert "not a regular file" in error.value.missing.ask


def test_a_file_hidden_from_a_container_is_denied_not_empty(monkeypatch):
    """Container runtimes mount /dev/null over /proc/keys."""
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, flags: opened("/dev/null", flags))
    with pytest.raises(EvidenceMissing) as error:
        LiveHost().read("proc/keys")

    assert why(error) is MissingReason.DENIED


def test_an_empty_mount_point_proves_nothing(monkeypatch):
    """/sys/kernel/security is there on every kernel; without securityfs on it, lockdown is unknown."""
    monkeypatch.setattr(live, "_holds_something", lambda folder: folder != "/sys/kernel/security")
    monkeypatch.setattr(os, "listdir", lambda folder: [])
    host = LiveHost()
    for ask in (host.read, host.exists):
        with pytest.raises(EvidenceMissing) as error:
            ask("sys/kernel/security/no-such-file")
        assert why(error) is MissingReason.NOT_COLLECTED
    with pytest.raises(EvidenceMissing):
        host.list("sys/kernel/security")
    assert host.list("etc") == ()


def test_links_are_followed():
    link = "proc/self/exe"
    assert LiveHost().resolve(link) == os.path.realpath(sys.executable).lstrip("/")
    assert LiveHost().resolve("etc/no/such") == "etc/no/such"


def test_names_that_could_forge_a_line_of_a_report_are_not_listed(tmp_path):
    for name in (b"plain", b"two\nlines", b"\xff\xfe"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()

    assert LiveHost().list(str(tmp_path).lstrip("/")) == ("plain",)


class TestCommands:
    def test_output_is_what_it_printed(self):
        assert LiveHost().run(Command(("echo", "one two"), ())) == b"one two\n"

    def test_it_speaks_english_and_knows_the_administrator_s_programs(self, monkeypatch):
        monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        output = LiveHost().run(Command(("env",), ())).decode()

        assert "LC_ALL=C\n" in output
        assert "PATH=/usr/bin:/bin:/usr/sbin:/sbin\n" in output

    def test_the_kernel_is_asked_for_its_name_without_a_child(self, monkeypatch, tmp_path):
        witness = subprocess.run(["uname", "-a"], capture_output=True, check=True).stdout
        monkeypatch.setenv("PATH", str(tmp_path))
        assert LiveHost().run(UNAME) == witness

    def test_a_missing_program_is_no_absence(self):
        with pytest.raises(EvidenceMissing) as error:
            LiveHost().run(Command(("no-such-program", "-x"), ()))

        assert not isinstance(error.value, EvidenceAbsent)
        assert error.value.missing.ask == "no-such-program -x (the command is not installed)"

    def test_a_failure_is_quoted(self):
        with pytest.raises(EvidenceMissing) as error:
            LiveHost().run(Command(("ls", "/no/such/thing"), ()))

        assert "No such file or directory" in error.value.missing.ask

    def test_a_command_that_hangs_is_left_behind(self, monkeypatch, tmp_path):
        monkeypatch.setattr(live, "COMMAND_TIMEOUT_S", 0.2)
        late = tmp_path / "late"
        with pytest.raises(EvidenceMissing) as error:
            LiveHost().run(Command(("sh", "-c", f"sleep 60; touch {late}"), ()))

        assert why(error) is MissingReason.TIMED_OUT
        assert not late.exists()


class TestProbes:
    """Asking a driver wakes GPUs, so a user must want it."""

    def test_not_unless_asked(self):
        with pytest.raises(EvidenceMissing) as error:
            LiveHost().run(PROBE_CUDA)
        assert "gdr doctor --probe" in error.value.missing.ask

    def test_the_script_of_ours_answers_in_a_child(self):
        assert b'"gdrkit.probe.cuda/1"' in open_host(None, probe=True).run(PROBE_CUDA)

    def test_one_that_is_not_there_is_told(self):
        with pytest.raises(EvidenceMissing, match="no such probe"):
            LiveHost(probe=True).run(Command(("gdr", "probe", "nothing", "--json"), ()))

    def test_a_bundle_cannot_be_probed(self, tmp_path):
        with pytest.raises(TargetError, match="cannot be probed"):
            open_host(str(tmp_path), probe=True)


def test_nothing_heavy_is_imported():
    """A start of `gdr doctor` has 80 ms for everything."""
    code = "import sys; import gdrkit.evidence.live; print(*sys.modules)"
    python = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = python.stdout.split()

    for heavy in ("subprocess", "pathlib", "tarfile", "json", "lzma", "zlib", "tempfile", "mmap"):
        assert heavy not in loaded
