"""Reading the machine that the tests run on."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdrkit.agent.collect import subprocesses
from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, MissingReason, live
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.live import LiveHost
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import PROBE_CUDA, UNAME
from tests.work import open_files, within


def why(error: pytest.ExceptionInfo[EvidenceMissing]) -> MissingReason:
    return error.value.missing.why


def test_no_target_is_this_machine():
    assert open_host(None).source == "live"


def test_files_of_proc_and_sys_are_read_whole():
    """stat(2) gives their size as 0 or 4096, so they are read to the end."""
    assert LiveHost().read("proc/kallsyms") == Path("/proc/kallsyms").read_bytes()
    assert LiveHost().read("proc/sys/kernel/osrelease").decode().strip() == os.uname().release
    assert bytes(LiveHost().map("proc/sys/kernel/osrelease")).decode().strip() == os.uname().release


def test_a_large_file_is_mapped_without_a_copy():
    mapped = LiveHost().map(os.path.realpath(sys.executable).lstrip("/"))

    assert mapped[:4] == b"\x7fELF"
    assert "mmap" in type(mapped.obj).__name__


def test_a_path_that_does_not_exist_is_absent():
    host = LiveHost()
    for ask in (host.read, host.map, host.list):
        for path in ("sys/no/such/thing", "etc/passwd/below-a-file", "etc/nul\0byte", "etc/" + "x" * 5000):
            with pytest.raises(EvidenceAbsent):
                ask(path)
    assert not host.exists("sys/no/such/thing")
    assert host.exists("etc/passwd")
    assert host.exists("etc")


def test_a_denied_file_names_the_command_to_read_it(tmp_path, monkeypatch):
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(EvidenceMissing) as error:
        LiveHost().read("proc/keys")

    assert why(error) is MissingReason.DENIED
    assert error.value.missing.ask == "sudo cat /proc/keys"


def test_a_read_error_is_neither_content_nor_absence(monkeypatch):
    """sysfs returns EINVAL for the speed of a port that is down: drivers/infiniband/core/sysfs.c."""

    def refuse(*_: object) -> bytes:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "read", refuse)
    with pytest.raises(EvidenceMissing) as error:
        LiveHost().read("sys/kernel/uevent_seqnum")

    assert not isinstance(error.value, EvidenceAbsent)
    assert "Invalid argument" in error.value.missing.ask


def test_a_fifo_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with within(5), pytest.raises(EvidenceMissing) as error:
        LiveHost().read(str(tmp_path / "pipe").lstrip("/"))

    assert "not a regular file" in error.value.missing.ask


def test_a_file_hidden_from_a_container_is_denied_not_empty(monkeypatch):
    """Container runtimes mount /dev/null over /proc/keys."""
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, flags: opened("/dev/null", flags))
    with pytest.raises(EvidenceMissing) as error:
        LiveHost().read("proc/keys")

    assert why(error) is MissingReason.DENIED


def test_nothing_below_an_empty_mount_point_counts_as_absent(monkeypatch):
    """Every kernel has /sys/kernel/security; if securityfs is not mounted there, lockdown is unknown."""
    monkeypatch.setattr(live, "_has_entries", lambda folder: folder != "/sys/kernel/security")
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


def test_names_that_are_not_printable_are_not_listed(tmp_path):
    for name in (b"plain", b"two\nlines", b"\xff\xfe"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()

    assert LiveHost().list(str(tmp_path).lstrip("/")) == ("plain",)


class TestCommands:
    def test_output_is_what_it_printed(self):
        assert LiveHost().run(Command(("echo", "one two"), ())) == b"one two\n"

    def test_commands_run_in_the_c_locale_with_sbin_in_their_path(self, monkeypatch):
        monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        output = LiveHost().run(Command(("env",), ())).decode()

        assert "LC_ALL=C\n" in output
        assert "PATH=/usr/sbin:/usr/bin:" in output, "the caller's PATH does not count"

    def test_uname_is_answered_without_a_child_process(self, monkeypatch, tmp_path):
        expected = subprocess.run(["uname", "-a"], capture_output=True, check=True).stdout
        monkeypatch.setenv("PATH", str(tmp_path))
        assert LiveHost().run(UNAME) == expected

    def test_a_missing_program_is_not_an_absence(self):
        with pytest.raises(EvidenceMissing) as error:
            LiveHost().run(Command(("no-such-program", "-x"), ()))

        assert not isinstance(error.value, EvidenceAbsent)
        assert error.value.missing.ask == "no-such-program -x (the command is not installed)"

    def test_the_error_message_of_a_failed_command_is_quoted(self):
        with pytest.raises(EvidenceMissing) as error:
            LiveHost().run(Command(("ls", "/no/such/thing"), ()))

        assert "No such file or directory" in error.value.missing.ask

    def test_a_command_that_hangs_times_out(self, monkeypatch, tmp_path):
        monkeypatch.setattr(live, "COMMAND_TIMEOUT_S", 0.2)
        late = tmp_path / "late"
        with pytest.raises(EvidenceMissing) as error:
            LiveHost().run(Command(("sh", "-c", f"sleep 60; touch {late}"), ()))

        assert why(error) is MissingReason.TIMED_OUT
        assert not late.exists()

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("exec cat /dev/zero", MissingReason.TRUNCATED),
            ("exec cat /dev/zero >&2", MissingReason.TIMED_OUT),
            ("yes | tr -d '\\n' >&2", MissingReason.TIMED_OUT),
        ],
    )
    def test_a_command_that_prints_without_end_is_stopped(self, monkeypatch, line, reason):
        monkeypatch.setattr(live, "COMMAND_TIMEOUT_S", 1)
        with within(20), pytest.raises(EvidenceMissing) as error:
            LiveHost().run(Command(("sh", "-c", line), ()))

        assert why(error) is reason


class TestProbes:
    """A probe wakes GPUs, so it runs only if the user asks for it."""

    def test_no_probe_runs_unless_asked_for(self):
        with pytest.raises(EvidenceMissing) as error:
            LiveHost().run(PROBE_CUDA)
        assert "gdr doctor --probe" in error.value.missing.ask

    def test_probes_that_hang_share_one_time_limit(self, monkeypatch):
        monkeypatch.setattr(live, "PROBE_TIMEOUT_S", 1)
        monkeypatch.setattr(live, "_probe_argv", lambda command: ("sleep", "60"))
        with within(3):
            host = open_host(None, probe=True)
            for name in live.PROBES:
                with pytest.raises(EvidenceMissing) as error:
                    host.run(Command((*live.PROBE, name, "--json"), ()))
                assert why(error) is MissingReason.TIMED_OUT

    def test_a_driver_that_prints_without_end_is_stopped(self, monkeypatch):
        monkeypatch.setattr(live, "_probe_argv", lambda command: ("cat", "/dev/zero"))
        with within(20), pytest.raises(EvidenceMissing) as error:
            open_host(None, probe=True).run(PROBE_CUDA)

        assert why(error) is MissingReason.TRUNCATED

    def test_a_probe_runs_in_a_child_process(self):
        assert b'"gdrkit.probe.cuda/1"' in open_host(None, probe=True).run(PROBE_CUDA)

    def test_an_unknown_probe_is_an_error(self):
        with pytest.raises(EvidenceMissing, match="unknown probe"):
            LiveHost(probe=True).run(Command(("gdr", "probe", "nothing", "--json"), ()))

    def test_a_bundle_cannot_be_probed(self, tmp_path):
        with pytest.raises(TargetError, match="cannot probe a file"):
            open_host(str(tmp_path), probe=True)


def test_no_slow_module_is_imported():
    """`gdr doctor` must start within 80 ms."""
    code = "import sys; own = set(sys.modules); import gdrkit.evidence.live; print(*{*sys.modules} - own)"
    python = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = python.stdout.split()

    for heavy in ("subprocess", "pathlib", "tarfile", "json", "lzma", "zlib", "tempfile", "mmap"):
        assert heavy not in loaded


def asked(ask, *args) -> tuple[MissingReason, str]:
    with pytest.raises(EvidenceMissing) as error:
        ask(*args)
    return error.value.missing.why, error.value.missing.ask


class TestFiles:
    """Files of any size, up to a limit, and devices, pipes and folders."""

    @pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 300_000])
    def test_all_of_a_file_is_read(self, tmp_path, size):
        path = tmp_path / "file"
        path.write_bytes(os.urandom(size))
        asked = str(path).lstrip("/")
        assert LiveHost().read(asked) == bytes(LiveHost().map(asked)) == path.read_bytes()

    def test_a_file_whose_size_is_made_up_is_read_to_its_end(self, monkeypatch, tmp_path):
        """As in proc and sysfs."""
        content = os.urandom(5_000_000)
        (tmp_path / "file").write_bytes(content)
        for size in (0, 4096):
            monkeypatch.setattr(live, "_size_of_file", lambda fd, path, size=size: size)
            assert LiveHost().read(str(tmp_path / "file").lstrip("/")) == content
            (tmp_path / "page").write_bytes(content[:4096])
            assert LiveHost().read(str(tmp_path / "page").lstrip("/")) == content[:4096]

    def test_a_file_beyond_the_limit_is_not_read(self, monkeypatch, tmp_path):
        monkeypatch.setattr(live, "READ_LIMIT_BYTES", 1 << 20)
        path = tmp_path / "file"
        path.write_bytes(bytes(1 << 20))
        asked_path = str(path).lstrip("/")
        assert len(LiveHost().read(asked_path)) == 1 << 20
        path.write_bytes(bytes((1 << 20) + 1))
        found = (MissingReason.TRUNCATED, f"cat {path} (larger than 1 MiB)")
        assert asked(LiveHost().read, asked_path) == found
        monkeypatch.setattr(live, "_size_of_file", lambda fd, path: 0)
        assert asked(LiveHost().read, asked_path) == found
        path.write_bytes(bytes(1 << 20))
        assert len(LiveHost().read(asked_path)) == 1 << 20

    def test_devices_pipes_and_folders_say_what_they_are(self):
        reader, writer = os.pipe()
        pipe = f"/proc/self/fd/{reader}"  # a path of proc, but no device
        for ask in (LiveHost().read, LiveHost().map):
            assert asked(ask, "etc") == (MissingReason.UNDECIDED, "ls -ld /etc (a directory)")
            why_not = (MissingReason.UNDECIDED, f"ls -ld {pipe} (not a regular file)")
            assert asked(ask, pipe.lstrip("/")) == why_not
            why_not = (MissingReason.UNDECIDED, "ls -ld /dev/null (not a regular file)")
            assert asked(ask, "dev/null") == why_not
        os.close(reader)
        os.close(writer)

    def test_a_file_of_sysfs_is_not_mapped(self):
        """Its size is made up, and most of sysfs has no mmap(2): Linux fs/kernfs/file.c."""
        path = "sys/devices/system/cpu/online"
        assert bytes(LiveHost().map(path)) == LiveHost().read(path) == Path("/" + path).read_bytes()

    def test_names_that_hold_a_zero_are_absent(self):
        host = LiveHost()
        assert not host.exists("etc/nul\0byte")
        assert asked(host.resolve, "etc/nul\0byte")[0] is MissingReason.ABSENT

    def test_a_loop_of_links_is_no_absence(self, tmp_path):
        (tmp_path / "loop").symlink_to("loop")
        loop = str(tmp_path / "loop").lstrip("/")
        found = (MissingReason.UNDECIDED, f"ls -ld /{loop} (symbolic link loop)")
        for ask in (LiveHost().read, LiveHost().exists, LiveHost().resolve):
            assert asked(ask, loop) == found


class TestWhyACommandFailed:
    """The reasons, whole."""

    @pytest.mark.parametrize(
        ("line", "reason", "ask"),
        [
            ("exit 3", MissingReason.NOT_COLLECTED, "exit code 3"),
            ("echo out; exit 3", MissingReason.NOT_COLLECTED, "out"),
            (
                "echo 'must be: Permission denied' >&2; exit 1",
                MissingReason.DENIED,
                "must be: Permission denied",
            ),
        ],
    )
    def test_by_itself(self, line, reason, ask):
        prefix = "sudo " if reason is MissingReason.DENIED else ""
        assert asked(LiveHost().run, Command(("sh", "-c", line), ())) == (
            reason,
            f"{prefix}sh -c {line} ({ask})",
        )

    def test_by_a_limit(self, monkeypatch):
        monkeypatch.setattr(live, "COMMAND_LIMIT_BYTES", 1 << 20)
        monkeypatch.setattr(live, "COMMAND_TIMEOUT_S", 0.25)
        why = (MissingReason.TIMED_OUT, "sleep 60 (timed out after 0.25 s)")
        assert asked(LiveHost().run, Command(("sleep", "60"), ())) == why
        monkeypatch.setattr(live, "COMMAND_TIMEOUT_S", 30)
        many = Command(("head", "-c", "1048577", "/dev/zero"), ())
        why = (MissingReason.TRUNCATED, f"{many.line} (printed more than 1 MiB)")
        assert asked(LiveHost().run, many) == why
        assert len(LiveHost().run(Command(("head", "-c", "1048576", "/dev/zero"), ()))) == 1 << 20

    def test_modinfo_of_several_modules_goes_on_after_one_that_is_unknown(self, monkeypatch):
        result = subprocesses.CommandResult(
            "failed", 1, b"filename: x\n", "modinfo: ERROR: Module y not found."
        )
        monkeypatch.setattr(subprocesses, "run", lambda *_: result)
        assert LiveHost().run(Command(("modinfo", "x", "y"), ())) == b"filename: x\n"
        assert asked(LiveHost().run, Command(("lsmod",), ()))[0] is MissingReason.NOT_COLLECTED
        monkeypatch.setattr(subprocesses, "run", lambda *_: result._replace(output=b" \n"))
        assert asked(LiveHost().run, Command(("modinfo", "y"), ()))[1].endswith(
            "(modinfo: ERROR: Module y not found.)"
        )


class TestDeadline:
    """Commands share half of the time until a deadline, and none takes longer than without one."""

    @pytest.fixture
    def clock(self, monkeypatch) -> list[float]:
        now = [1000.0]
        monkeypatch.setattr(live, "monotonic", lambda: now[0])
        return now

    @pytest.mark.parametrize(
        ("deadline_s", "passed_s", "left_s"),
        [(None, 999, 10), (100, 0, 10), (100, 41, 9), (8, 0, 4), (8, 3.5, 0.5)],
    )
    def test_a_command_may_take_what_is_left(self, clock, deadline_s, passed_s, left_s):
        host = LiveHost(deadline_s=deadline_s)
        clock[0] += passed_s
        assert host._time_left(UNAME) == left_s

    @pytest.mark.parametrize("passed_s", [4, 5])
    def test_none_starts_when_the_time_is_spent(self, clock, tmp_path, passed_s):
        host = LiveHost(deadline_s=8)
        clock[0] += passed_s
        touch = Command(("touch", str(tmp_path / "file")), ())
        why = (MissingReason.TIMED_OUT, f"{touch.line} (timed out before it started)")
        assert asked(host.run, touch) == why
        assert not (tmp_path / "file").exists()
        assert host.run(UNAME) and host.read("proc/version")


def test_no_file_stays_open(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    paths = [f"{tmp_path}/{name}".lstrip("/") for name in ("file", "none", "nul\0")] + ["dev/null", "etc"]
    before = open_files()
    host = LiveHost()
    for ask in (host.read, host.map, host.list, host.exists, host.resolve):
        for path in paths:
            with contextlib.suppress(EvidenceMissing):
                ask(path)
    assert open_files() == before


def test_the_limits():
    limits = (live.READ_LIMIT_BYTES, live.COMMAND_LIMIT_BYTES, live.BLOCK_BYTES)
    assert limits == (256 << 20, 32 << 20, 1 << 16)
