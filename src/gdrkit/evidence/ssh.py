"""Collect from another machine through the system's OpenSSH. Nothing is installed or left there.

The collector is sent to the standard input of `python3 -I -`; its bundle comes back on standard output.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO

from gdrkit.agent.launch import is_destination, program_path, ssh
from gdrkit.evidence.bundle import BundleHost
from gdrkit.evidence.errors import TargetError
from gdrkit.formats.regex import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

COLLECTOR = "gdr collect"
COLLECT_TIMEOUT_S = 180
"""How long the collector may take: each command has 10 s, and about 20 MB may cross a slow line."""

BUNDLE_LIMIT_BYTES = 1 << 30
"""Bundles are 5 to 60 MB; anything larger than this is not a bundle."""

BLOCK_BYTES = 1 << 16
LINE_LIMIT_BYTES = 1000
NO_SUCH_COMMAND = 127
"""The shell did not find the command: POSIX 2.8.2."""
KEPT_LINES = 12
SHOWN_LIMIT_BYTES = 1 << 15
"""Of standard error: the collector writes some tens of lines."""

REST_S = 1
"""How long to wait for the rest of standard error after ssh has ended."""

GRACE_S = 3.0
"""How long a command may take to end: srun(1) first ends what it started on the node."""

TARGET = regex(
    r"ssh://(?P<destination>(?:[^/@]+@)?(?:\[[^\]]*\]|[^/:\[\]]+))(?::(?P<port>\d{1,5}))?/?", re.ASCII
)


def open_ssh(target: str, probe: bool = False) -> BundleHost:
    """The machine at ssh://[user@]host[:port] as a host. Raises TargetError, quoting ssh's error message."""
    from gdrkit.agent.output_file import temporary_file

    match = TARGET.fullmatch(target)
    if match is None or not is_destination(match["destination"]):
        raise TargetError(f"not a valid ssh target: {target!r}", "write it as ssh://[user@]host[:port]")
    with temporary_file() as bundle:
        code, lines = collect(_command(match, probe), bundle)
        if code or not bundle.tell():
            raise failure(target, code, lines)
        bundle.seek(0)
        return _read(bundle, target)


def _command(match: re.Match[str], probe: bool) -> list[str]:
    """The argument list of ssh. Host keys are checked as usual."""
    return ssh(match["destination"], remote_command(probe=probe), match["port"])


def remote_command(*, probe: bool = False, sudo: bool = False) -> str:
    """The shell command that runs the collector from its standard input; sudo never asks for a password."""
    # -I: a module in the folder that ssh starts in must not take the place of Python's own (python(1)).
    return f"{'sudo -n ' if sudo else ''}python3 -I - -o -{'' if probe else ' --no-probe'}"


def collect(
    command: list[str],
    bundle: IO[bytes],
    timeout_s: float | None = None,
    *,
    quiet: bool = False,
    started: Callable[[subprocess.Popen[bytes]], None] = lambda child: None,
) -> tuple[int, list[str]]:
    """Run the collector by a command, such as ssh, and write its output to a file. Returns its exit code and
    its last lines on standard error; unless `quiet`, that is shown here as it arrives: it is the collector's
    progress. `started` gets the process. Raises TargetError."""
    import subprocess
    import threading

    timeout_s = COLLECT_TIMEOUT_S if timeout_s is None else timeout_s

    from gdrkit.agent.pipes import end_group, terminate_group

    pipe = subprocess.PIPE
    try:
        words = [program_path(command[0]), *command[1:]]
        child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    except FileNotFoundError:
        hint = "install openssh-client" if command[0] == "ssh" else ""
        raise TargetError(f"{command[0]} is not installed here", hint) from None
    except OSError as error:
        raise TargetError(f"{command[0]} cannot be started: {error.strerror}") from None
    started(child)
    deadline = time.monotonic() + timeout_s
    assert child.stdin and child.stdout and child.stderr  # all are pipes
    lines = _RemoteLines(quiet)
    threading.Thread(target=_send, args=(child.stdin, deadline), daemon=True).start()
    try:
        _receive(child.stdout, child.stderr, bundle, lines, deadline)
        code = child.wait(max(0.0, deadline - time.monotonic()))
        _receive_rest(child.stderr, lines)
    except (TimeoutError, subprocess.TimeoutExpired):
        last = f"; last line: {lines.kept[-1]}" if lines.kept else ""
        raise TargetError(
            f"timed out: no bundle within {timeout_s:.3g} s{last}",
            "run gdr collect there, and copy the bundle",
        ) from None
    finally:
        if child.poll() is None:
            terminate_group(child)
            end_group(child, GRACE_S)
        else:
            end_group(child)
    return code, list(lines.kept)


def _send(pipe: IO[bytes], deadline: float) -> None:
    """Send the program to the remote interpreter. If that has ended, ssh reports it."""
    from gdrkit.agent.pipes import send

    try:
        send(pipe, collector_program(), deadline)
        pipe.close()
    except (BrokenPipeError, TimeoutError):
        return


def _receive(
    stdout: IO[bytes], stderr: IO[bytes], bundle: IO[bytes], lines: _RemoteLines, deadline: float
) -> None:
    """Write all of standard output to a file, and show standard error meanwhile. Raises TimeoutError."""
    import selectors

    left = BUNDLE_LIMIT_BYTES
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        selector.register(stderr, selectors.EVENT_READ)
        while stdout in (key.fileobj for key in selector.get_map().values()):
            if time.monotonic() > deadline:
                raise TimeoutError
            for key, _ in selector.select(deadline - time.monotonic()):
                block = os.read(key.fd, BLOCK_BYTES)
                if not block:
                    selector.unregister(key.fileobj)
                elif key.fileobj is stderr:
                    lines.add(block)
                else:
                    bundle.write(block)
                    left -= len(block)
            if left < 0:
                raise TargetError(
                    f"not a bundle: received more than {BUNDLE_LIMIT_BYTES >> 30} GiB",
                    "run gdr collect there, and copy the bundle",
                )


def _receive_rest(stderr: IO[bytes], lines: _RemoteLines) -> None:
    """Show what is left on standard error. A process that ssh left behind may keep it open."""
    from gdrkit.agent.pipes import receive

    with contextlib.suppress(TimeoutError, OverflowError):
        while block := receive(stderr, BLOCK_BYTES, time.monotonic() + REST_S, until=b"\n"):
            lines.add(block)
            if lines.left <= 0:
                break
    lines.end()


class _RemoteLines:
    """Shows the lines that the other machine writes: bounded ones, and no more than a collector writes."""

    def __init__(self, quiet: bool = False) -> None:
        self.kept: deque[str] = deque(maxlen=KEPT_LINES)
        self.left = 0 if quiet else SHOWN_LIMIT_BYTES
        self._started = b""

    def add(self, block: bytes) -> None:
        *lines, self._started = (self._started + block).split(b"\n")
        for line in lines if self.left > 0 else lines[-KEPT_LINES:]:
            self._show(line)
        if len(self._started) > LINE_LIMIT_BYTES:
            self.end()

    def end(self) -> None:
        self._show(self._started)
        self._started = b""

    def _show(self, line: bytes) -> None:
        line = line[:LINE_LIMIT_BYTES]
        text = "".join(letter for letter in line.decode("utf-8", "replace") if letter.isprintable())
        if not text:
            return
        if not text.startswith(" "):  # a line that only continues another
            self.kept.append(text)
        if self.left > 0:
            print(text, file=sys.stderr, flush=True)
        self.left -= len(line)


def failure(target: str, code: int, lines: Sequence[str], program: str = COLLECTOR) -> TargetError:
    """Why a program did not do its work on a machine, by the exit code of ssh and the last lines of its
    errors."""
    last_line = lines[-1] if lines else ""
    if code == NO_SUCH_COMMAND and "sudo" in last_line:
        return TargetError(f"sudo not found on {target}", "leave --sudo out, and name it as root@host")
    if code == NO_SUCH_COMMAND:
        hint = "run nvidia-bug-report.sh or sos report there, copy the file, and run gdr doctor FILE"
        return TargetError(f"python3 not found on {target}", hint)
    if code == 255:  # ssh(1), EXIT STATUS
        return TargetError(
            f"cannot connect to {target}: {last_line or 'ssh failed'}", "try: ssh -v " + target
        )
    why = last_line or f"exit code {code}"
    return TargetError(f"{program} failed on {target}: {why}", "run gdr collect there, and copy the bundle")


def _read(bundle: IO[bytes], target: str) -> BundleHost:
    from gdrkit.evidence.archive import BLOCK
    from gdrkit.evidence.stream import open_stream
    from gdrkit.evidence.tarball import open_tarball

    stream = open_stream(bundle, target)
    check_bundle(stream.peek(BLOCK), target)
    return open_tarball(stream, target, source="ssh")


_BINARY = regex("[\x1f\N{REPLACEMENT CHARACTER}]")
"""Where text ends, and perhaps a bundle begins, which no two machines have alike: gzip, RFC 1952, 2.3.1."""


def check_bundle(head: bytes, target: str) -> None:
    """Raises TargetError unless the first bytes that a machine sent, unpacked, begin an archive."""
    from gdrkit.evidence.archive import is_header

    if not is_header(head):
        text = " ".join(_BINARY.split(head[:80].decode("utf-8", "replace"))[0].split())
        text = "".join(letter for letter in text if letter.isprintable())
        raise TargetError(
            f"not a bundle: {target} sent: {text or 'no text'}",
            "check the shell profile there: it must print nothing",
        )


_BOOTSTRAP = """\
import binascii, os, sys, tempfile
if sys.version_info < (3, 8):
    sys.exit("gdr-collect needs Python 3.8 or later; this is %d.%d" % sys.version_info[:2])
try:
    file = open(os.memfd_create("gdr-collect"), "w+b")
    path = "/proc/self/fd/%d" % file.fileno()
except (AttributeError, OSError):
    file = tempfile.NamedTemporaryFile(prefix="gdr-collect.")
    path = file.name
file.write(binascii.a2b_base64("ARCHIVE"))
file.flush()
sys.path.insert(0, path)
from gdrkit.agent.collect import main
sys.exit(main())
"""


@functools.cache
def collector_program() -> bytes:
    """The collector as one Python program for `python3 -`, which cannot run an archive from standard input.

    The program contains the archive and writes it to memory: memfd_create(2)."""
    import binascii

    from gdrkit.agent.collect.pyz import archive

    packed = binascii.b2a_base64(archive(), newline=False).decode()
    return _BOOTSTRAP.replace("ARCHIVE", packed).encode()
