"""The machine that gdr runs on. A command runs only when a fact asks for its output.

Every start of `gdr doctor` imports this module, so other modules are imported only where they are needed.
"""

from __future__ import annotations

import os
from errno import EPERM
from stat import S_ISCHR, S_ISDIR, S_ISREG
from time import monotonic
from typing import TYPE_CHECKING

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing
from gdrkit.evidence.missing import (
    GO_ON,
    MOUNT_POINTS,
    NOT_THERE,
    absent,
    denied,
    not_mounted,
    of_command,
    of_error,
    of_long_output,
    truncated,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

READ_LIMIT_BYTES = 256 << 20
"""The most that is read into memory. The largest file a fact reads whole is a module with debug symbols;
nvidia.ko of the open 580 driver, unstripped, is about 100 MB."""

BLOCK_BYTES = 1 << 16
"""Read at a time where the size of a file is not known: proc and sysfs return at most a few pages."""

COMMAND_TIMEOUT_S = 10
"""nvidia-smi without persistence mode takes seconds on 8 GPUs; one that takes longer hangs in the kernel."""

COMMANDS_SHARE = 0.5
"""Of the time until a deadline. nvidia-smi hangs if a GPU does; the other half is for what files show."""

COMMAND_LIMIT_BYTES = 32 << 20
"""The most that a command may print. nvidia-smi -q prints 1 MB on 8 GPUs, as does a list of packages."""

DMESG = ("dmesg",)
UNAME = ("uname", "-a")
"""Commands that are answered without a child process."""

PROBE = ("gdr", "probe")
PROBES = ("rm", "cuda", "memory", "verbs")
RUNNING, MAPPED = ("gdr", "ps", "--record"), ("gdr", "ps")
RUNNING_TIMEOUT_S = 8
"""The script ends itself after 4 s even if something hangs; a busy machine may be slow to start it."""
PROBE_TIMEOUT_S = 60
"""cuInit wakes every GPU: 10 to 20 s for 8 of them without persistence mode. All probes share it."""

FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY  # Python adds O_CLOEXEC (PEP 446)


class LiveHost:
    """The machine that gdr runs on. Probes of drivers run only if the user asks for them. With a deadline,
    all commands together take no more than COMMANDS_SHARE of the time until then."""

    source = "live"

    def __init__(self, probe: bool = False, deadline_s: float | None = None) -> None:
        self._probe = probe
        self._commands_end = None if deadline_s is None else monotonic() + deadline_s * COMMANDS_SHARE
        self._probes: dict[str, Future[bytes]] = {}

    def start_probes(self, names: Sequence[str] = PROBES) -> None:
        """Start probes side by side. `run` then waits for the one that is asked for.

        Python waits at its end for threads of a pool, but not for these: an interrupt ends the command."""
        from concurrent.futures import Future
        from threading import Thread

        for name in names:
            command = Command((*PROBE, name, "--json"), ())
            answer: Future[bytes] = Future()
            self._probes[name] = answer
            Thread(target=_answer, args=(answer, command, _probe_argv(command)), daemon=True).start()

    def read(self, path: str) -> bytes:
        try:
            fd = os.open("/" + path, FLAGS)
            try:
                return read_open(fd, path)
            finally:
                os.close(fd)
        except OSError as error:
            raise self._missing(path, error) from None
        except ValueError:  # a NUL in the name
            raise absent(path) from None

    def map(self, path: str) -> memoryview:
        try:
            fd = os.open("/" + path, FLAGS)
            try:
                return map_open(fd, path)
            finally:
                os.close(fd)
        except OSError as error:
            raise self._missing(path, error) from None
        except ValueError:
            raise absent(path) from None

    def list(self, path: str) -> tuple[str, ...]:
        try:
            names = os.listdir("/" + path)
        except OSError as error:
            raise self._missing(path, error) from None
        except ValueError:
            raise absent(path) from None
        if not names and path in MOUNT_POINTS:
            raise not_mounted(path)
        return tuple(sorted(name for name in names if name.isprintable()))

    def exists(self, path: str) -> bool:
        try:
            os.stat("/" + path)
        except OSError as error:
            missing = self._missing(path, error)
            if isinstance(missing, EvidenceAbsent):
                return False
            raise missing from None
        except ValueError:
            return False
        return True

    def resolve(self, path: str) -> str:
        try:
            return os.path.realpath("/" + path, strict=True).lstrip("/")
        except OSError as error:
            if error.errno in NOT_THERE:  # the part that exists, like readlink -m
                return os.path.realpath("/" + path).lstrip("/")
            raise of_error(path, error) from None
        except ValueError:
            raise absent(path) from None

    def run(self, command: Command) -> bytes:
        if command.argv[:2] == PROBE:
            if not self._probe:
                raise of_command(command, "not run; to run it: gdr doctor --probe")
            if started := self._probes.get(command.argv[2]):
                return started.result()
            return run_command(command, _probe_argv(command), PROBE_TIMEOUT_S)
        if command.argv in (RUNNING, MAPPED):
            from gdrkit.agent.running.options import PROGRAMS

            argv = script_argv(command, "running_probe") + ((PROGRAMS,) if command.argv == MAPPED else ())
            return run_command(command, argv, RUNNING_TIMEOUT_S)
        if command.argv == DMESG:
            return self._kernel_log(command)
        if command.argv == UNAME:
            return f"{' '.join(os.uname())} GNU/Linux\n".encode()
        return run_command(command, command.argv, self._time_left(command))

    def _kernel_log(self, command: Command) -> bytes:
        """The output of dmesg. Raises EvidenceMissing if this user may not read the log.

        Containers often have no /dev/kmsg; dmesg then uses syslog(2)."""
        from gdrkit.evidence.kernel_log import dmesg

        try:
            return dmesg()
        except OSError as error:
            if error.errno == EPERM:  # check_syslog_permissions() guards syslog(2), too
                raise of_command(command, "read kernel buffer failed: Operation not permitted") from None
        return run_command(command, command.argv, self._time_left(command))

    def _time_left(self, command: Command) -> float:
        """How long a command may take, in seconds. Raises EvidenceMissing if it may not start any more."""
        if self._commands_end is None:
            return COMMAND_TIMEOUT_S
        if (left := self._commands_end - monotonic()) <= 0:
            raise of_command(command, "timed out before it started")
        return min(left, COMMAND_TIMEOUT_S)

    def origin(self, name: str) -> None:
        """None: a live host is not built from a text."""

    def _missing(self, path: str, error: OSError) -> EvidenceMissing:
        if error.errno in NOT_THERE:
            for point in MOUNT_POINTS:
                if path.startswith(point + "/") and not _has_entries("/" + point):
                    return not_mounted(path)
            if path.startswith("proc/1/"):
                from gdrkit.agent.running.files import hides_processes

                if hides_processes(os.listdir("/proc")):
                    return denied(path)
        return of_error(path, error)


def read_open(fd: int, path: str) -> bytes:
    """The whole content of an open file. Raises EvidenceMissing if it is not a regular file, OSError as
    read(2) does.

    Container runtimes hide a file by a bind mount of /dev/null (moby oci/defaults.go, MaskedPaths), so a
    character device in place of a file means denied, not empty."""
    size = _size_of_file(fd, path)
    if size > READ_LIMIT_BYTES:
        raise truncated(path, f"larger than {READ_LIMIT_BYTES >> 20} MiB")
    blocks = []
    left = READ_LIMIT_BYTES
    while block := os.read(fd, max(size, BLOCK_BYTES)):  # proc and sysfs make up their sizes: 0, or a page
        blocks.append(block)
        left -= len(block)
        if left < 0:
            raise truncated(path, f"larger than {READ_LIMIT_BYTES >> 20} MiB")
    return b"".join(blocks)


def map_open(fd: int, path: str) -> memoryview:
    """The content of an open file, without a copy if the file can be mapped."""
    if not _size_of_file(fd, path) or path.startswith(("proc/", "sys/")):
        return memoryview(read_open(fd, path))
    import mmap

    return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))


def _size_of_file(fd: int, path: str) -> int:
    """The size of an open file in bytes, by fstat(2). Raises EvidenceMissing if it is not a regular file."""
    status = os.fstat(fd)
    mode = status.st_mode
    if S_ISREG(mode):
        return status.st_size
    if S_ISDIR(mode):
        raise unreadable(path, "a directory")
    if S_ISCHR(mode) and path.startswith(("proc/", "sys/")):
        raise of_error(path, PermissionError(13, "hidden from this container"))
    raise unreadable(path, "not a regular file")


def _has_entries(folder: str) -> bool:
    """Whether a directory has entries; true also if it does not exist or cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return True


def _probe_argv(command: Command) -> tuple[str, ...]:
    """The argument list to run a probe with this Python, as on a machine without gdrkit."""
    return script_argv(command, f"{command.argv[2]}_probe")


def script_argv(command: Command, script: str) -> tuple[str, ...]:
    """The argument list to run a script of gdrkit.agent.probe."""
    import sys

    from gdrkit.agent.probe.program import program

    try:
        return (sys.executable, "-I", "-c", program(script))
    except OSError:
        raise of_command(command, "unknown probe") from None


def _answer(answer: Future[bytes], command: Command, argv: tuple[str, ...]) -> None:
    try:
        answer.set_result(run_command(command, argv, PROBE_TIMEOUT_S))
    except BaseException as error:
        answer.set_exception(error)


def run_command(command: Command, argv: tuple[str, ...], timeout_s: float) -> bytes:
    """Standard output of a command. Raises EvidenceMissing, quoting the error message, if it failed, printed
    without end, or took too long; it and its children are killed then."""
    from gdrkit.agent.collect.subprocesses import run

    result = run(argv, timeout_s, COMMAND_LIMIT_BYTES)
    if result.status == "not-installed":
        raise of_command(command, "the command is not installed")
    if result.status == "timed-out":
        raise of_command(command, f"timed out after {timeout_s:.3g} s")
    if result.status == "truncated":
        raise of_long_output(command, f"printed more than {COMMAND_LIMIT_BYTES >> 20} MiB")
    if result.status == "failed" and not (command.argv[0] in GO_ON and result.output.strip()):
        raise of_command(command, result.complaint or f"exit code {result.exit_code}")
    return result.output
