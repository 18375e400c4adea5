"""Running commands: every result is recorded, none stops the collection."""

from __future__ import annotations

import contextlib
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gdrkit.agent.collect import subprocesses


def script(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def ends(program: str) -> bool:
    """Whether no process runs the program any more, nor a fork of it: SIGKILL takes a moment."""
    deadline = time.monotonic() + 20
    while running(program):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def running(program: str) -> list[str]:
    """The processes that run the program, and its forks. A killed process has no arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if program.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(process.name)
    return found


def test_output_of_a_command_that_succeeds(tmp_path):
    path = script(tmp_path, "tool", "echo $LC_ALL; echo aside >&2")

    assert subprocesses.run(["tool"], 5, 100, path) == subprocesses.CommandResult(
        "found", 0, b"C\n", "aside"
    )


def test_the_error_message_of_a_failed_command_is_quoted(tmp_path):
    path = script(tmp_path, "tool", "echo TOOL has failed; exit 9")

    result = subprocesses.run(["tool"], 5, 100, path)

    assert (result.status, result.exit_code, result.complaint) == ("failed", 9, "TOOL has failed")


def test_a_command_that_is_not_installed(tmp_path):
    assert subprocesses.run(["tool"], 5, 100, str(tmp_path)).status == "not-installed"


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path):
    late = tmp_path / "late"
    path = script(tmp_path, "tool", f"(sleep 60; touch {late}) & sleep 60; touch {late}")

    result = subprocesses.run(["tool"], 0.2, 100, path)

    assert (result.status, result.exit_code) == ("timed-out", None)
    assert not late.exists()
    assert ends(str(tmp_path / "tool"))


def test_endless_output_is_truncated(tmp_path):
    path = script(tmp_path, "tool", "while :; do echo yes; done")

    result = subprocesses.run(["tool"], 5, 1000, path)

    assert result.status == "truncated"
    assert len(result.output) == 1000


def test_endless_errors_end_with_the_time(tmp_path):
    path = script(tmp_path, "tool", "while :; do echo no >&2; done")

    result = subprocesses.run(["tool"], 0.5, 1000, path)

    assert result.status == "timed-out"
    assert ends(str(tmp_path / "tool"))


def test_a_command_has_no_input_and_no_shell(tmp_path):
    path = script(tmp_path, "tool", 'cat; echo "$1"')

    assert subprocesses.run(["tool", "$(id); *"], 5, 100, path).output == b"$(id); *\n"


def test_a_program_in_the_current_folder_is_not_run_whatever_path_says(tmp_path, monkeypatch):
    planted = script(tmp_path, "uname", f"touch {tmp_path}/ran")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".:{planted}")

    assert subprocesses.run(["uname"], 5, 100).output == b"Linux\n"
    assert not (tmp_path / "ran").exists()


def test_a_command_that_root_runs_sees_nothing_of_the_callers_environment(tmp_path, monkeypatch):
    path = script(tmp_path, "tool", "/usr/bin/env")
    for name in ("PYTHONPATH", "HOME", "BASH_ENV", "LD_PRELOAD"):
        monkeypatch.setenv(name, "/planted")
    monkeypatch.setenv("LD_LIBRARY_PATH", f".::{tmp_path}/planted:/planted:/usr/lib")
    monkeypatch.setattr("os.geteuid", lambda: 0)

    output = subprocesses.run(["tool"], 5, 1000, path).output

    assert b"LC_ALL=C\n" in output and b"planted" not in output
    assert b"LD_LIBRARY_PATH=/usr/lib\n" in output


@pytest.mark.parametrize("folder", ["/usr/sbin", "/sbin"])
def test_programs_in_sbin_are_found(folder):
    assert folder in subprocesses.search_path().split(":")


def test_a_child_that_keeps_the_output_open_is_a_command_that_timed_out(tmp_path):
    """The command itself has ended, and well; its output has not."""
    path = script(tmp_path, "tool", "echo so far; sleep 60 &")

    result = subprocesses.run(["tool"], 0.3, 100, path)

    assert result == subprocesses.CommandResult("timed-out", None, b"so far\n", "")


@pytest.mark.parametrize(
    ("limit", "status", "output"), [(9, "truncated", b"012345678"), (10, "found", b"0123456789")]
)
def test_output_up_to_the_limit_is_kept(tmp_path, limit, status, output):
    path = script(tmp_path, "tool", "printf 0123456789")

    result = subprocesses.run(["tool"], 30, limit, path)

    assert (result.status, result.output) == (status, output)


def test_an_error_message_is_cut():
    result = subprocesses.run(["sh", "-c", "head -c 5000 /dev/zero | tr '\\0' x >&2; exit 3"], 30, 100)

    assert result == subprocesses.CommandResult("failed", 3, b"", "x" * subprocesses.STDERR_LIMIT_BYTES)


def test_a_program_that_cannot_be_started_failed(tmp_path):
    (tmp_path / "tool").write_bytes(b"\x7fELF")
    (tmp_path / "tool").chmod(0o755)

    result = subprocesses.run(["tool"], 5, 100, str(tmp_path))

    assert result == subprocesses.CommandResult("failed", None, b"", "Exec format error")


def test_an_interrupt_ends_the_command_that_runs(tmp_path):
    path = script(tmp_path, "tool", f"touch {tmp_path}/began; sleep 60")

    def interrupt(*_: object) -> None:
        if (tmp_path / "began").exists():
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            subprocesses.run(["tool"], 50, 100, path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ends(str(tmp_path / "tool"))
    assert not subprocesses._running


def test_every_command_that_runs_is_killed_at_once(tmp_path):
    path = script(tmp_path, "tool", f"touch {tmp_path}/$1; sleep 60")
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(subprocesses.run, ["tool", name], 50, 100, path) for name in "ab"]
        while not ((tmp_path / "a").exists() and (tmp_path / "b").exists()):
            time.sleep(0.02)
        subprocesses.kill_all()
        results = [job.result() for job in jobs]
    assert [(result.status, result.exit_code) for result in results] == [("failed", -9)] * 2
    assert ends(str(tmp_path / "tool")) and not subprocesses._running


@pytest.mark.parametrize(("there", "status"), [([], "failed"), (["b"], "found"), (["a", "b"], "found")])
def test_a_program_that_loads_a_module_is_run_if_it_is_loaded(tmp_path, monkeypatch, there, status):
    monkeypatch.setattr(subprocesses, "LOADING", {"tool": tuple(str(tmp_path / name) for name in "ab")})
    for name in there:
        (tmp_path / name).touch()
    result = subprocesses.run(["tool"], 50, 100, script(tmp_path, "tool", ""))
    reason = "" if status == "found" else "not run: it would load a kernel module"
    assert (result.status, result.complaint) == (status, reason)


def test_a_command_that_ends_after_its_output_is_waited_for(tmp_path):
    path = script(tmp_path, "tool", "echo x; exec >&- 2>&-; sleep 0.3; exit 4")
    assert subprocesses.run(["tool"], 50, 100, path)[:3] == ("failed", 4, b"x\n")
    path = script(tmp_path, "tool", "echo x; exec >&- 2>&-; sleep 60")
    assert subprocesses.run(["tool"], 0.3, 100, path)[:3] == ("timed-out", None, b"x\n")
