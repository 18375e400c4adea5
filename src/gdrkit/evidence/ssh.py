"""Collect from another machine through the system's OpenSSH. Nothing is installed or left there.

The collector is sent to the standard input of `python3 -`; its bundle comes back on standard output.
"""

from __future__ import annotations

import re
import sys
from typing import IO

from gdrkit.agent.launch import is_destination, ssh
from gdrkit.evidence.bundle import BundleHost
from gdrkit.evidence.errors import TargetError

COLLECT_TIMEOUT_S = 180
"""How long the collector may take: each command has 10 s, and about 20 MB may cross a slow line."""

BUNDLE_LIMIT_BYTES = 1 << 30
"""Bundles are 5 to 60 MB; anything larger than this is not a bundle."""

TARGET = re.compile(
    r"ssh://(?P<destination>(?:[^/@]+@)?(?:\[[^\]]*\]|[^/:\[\]]+))(?::(?P<port>\d{1,5}))?/?", re.ASCII
)


def open_ssh(target: str, probe: bool = False) -> BundleHost:
    """The machine at ssh://[user@]host[:port] as a host. Raises TargetError, quoting ssh's error message."""
    import tempfile

    match = TARGET.fullmatch(target)
    if match is None or not is_destination(match["destination"]):
        raise TargetError(f"not a valid ssh target: {target!r}", "write it as ssh://[user@]host[:port]")
    with tempfile.TemporaryFile() as bundle:
        code, last_line = _collect(_command(match, probe), bundle)
        if code or not bundle.tell():
            raise _failure(target, code, last_line)
        bundle.seek(0)
        return _read(bundle, target)


def _command(match: re.Match[str], probe: bool) -> list[str]:
    """The argument list of ssh. Host keys are checked as usual."""
    program = "python3 - -o -" if probe else "python3 - -o - --no-probe"
    return ssh(match["destination"], program, match["port"] or "")


def _collect(command: list[str], bundle: IO[bytes]) -> tuple[int, str]:
    """Run the collector on the other machine and write its output to a file. Returns its exit code and its
    last line on standard error, which is also shown here as it arrives: it is the collector's progress."""
    import subprocess
    import threading

    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    except FileNotFoundError:
        raise TargetError("ssh is not installed here", "install openssh-client") from None
    assert child.stdin and child.stdout and child.stderr  # all are pipes
    lines: list[str] = []
    writer = threading.Thread(target=_send, args=(child.stdin,), daemon=True)
    reader = threading.Thread(target=_show, args=(child.stderr, lines), daemon=True)
    timer = threading.Timer(COLLECT_TIMEOUT_S, child.kill)
    for thread in (writer, reader, timer):
        thread.start()
    try:
        left = BUNDLE_LIMIT_BYTES
        while block := child.stdout.read(1 << 20):
            bundle.write(block)
            left -= len(block)
            if left < 0:
                child.kill()
                raise TargetError(
                    f"not a bundle: received more than {BUNDLE_LIMIT_BYTES >> 30} GiB",
                    "run gdr collect there, and copy the bundle",
                )
        code = child.wait()
    finally:
        timed_out = not timer.is_alive()
        timer.cancel()
    reader.join(1)
    if timed_out:
        raise TargetError(
            f"timed out: no bundle within {COLLECT_TIMEOUT_S} s",
            "run gdr collect there, and copy the bundle",
        )
    return code, lines[-1] if lines else ""


def _send(pipe: IO[bytes]) -> None:
    """Send the program to the remote interpreter. If that has ended, ssh reports it."""
    try:
        pipe.write(collector_program())
        pipe.close()
    except BrokenPipeError:
        return


def _show(pipe: IO[bytes], lines: list[str]) -> None:
    for line in pipe:
        text = "".join(letter for letter in line.decode("utf-8", "replace") if letter.isprintable())
        if text:
            print(text, file=sys.stderr, flush=True)
            lines.append(text)
            del lines[:-20]


def _failure(target: str, code: int, last_line: str) -> TargetError:
    if code == 127:  # command not found: POSIX 2.8.2
        hint = "run nvidia-bug-report.sh or sos report there, copy the file, and run gdr doctor FILE"
        return TargetError(f"python3 not found on {target}", hint)
    if code == 255:  # ssh(1), EXIT STATUS
        return TargetError(
            f"cannot connect to {target}: {last_line or 'ssh failed'}", "try: ssh -v " + target
        )
    why = last_line or f"exit code {code}"
    return TargetError(
        f"gdr collect failed on {target}: {why}", "run gdr collect there, and copy the bundle"
    )


def _read(bundle: IO[bytes], target: str) -> BundleHost:
    from gdrkit.evidence.archive import BLOCK, is_header
    from gdrkit.evidence.stream import open_stream
    from gdrkit.evidence.tarball import open_tarball

    stream = open_stream(bundle, target)
    head = stream.peek(BLOCK)
    if not is_header(head):
        text = " ".join(head[:80].decode("utf-8", "replace").split())
        text = "".join(letter for letter in text if letter.isprintable())
        raise TargetError(
            f"not a bundle: {target} sent: {text}",
            "check the shell profile there: it must print nothing",
        )
    return open_tarball(stream, target, source="ssh")


def collector_program() -> bytes:
    """The collector as one Python program for `python3 -`, which cannot run an archive from standard input.

    The program contains the archive and writes it to memory: memfd_create(2)."""
    import binascii

    from gdrkit.agent.collect.pyz import archive

    packed = binascii.b2a_base64(archive(), newline=False).decode()
    return _BOOTSTRAP.replace("ARCHIVE", packed).encode()


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
