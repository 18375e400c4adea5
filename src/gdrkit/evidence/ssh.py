"""Another machine, through the system's OpenSSH. Nothing is installed there and nothing is left there.

The collector goes over standard input to `python3 -`; its bundle comes back on standard output.
"""

from __future__ import annotations

import re
import sys
from typing import IO

from gdrkit.evidence.bundle import BundleHost
from gdrkit.evidence.errors import TargetError

CONNECT_TIMEOUT_S = 10
"""What OpenSSH may take to reach a machine; a rack switch that drops packets answers never."""

COLLECT_TIMEOUT_S = 180
"""What the collector may take: it gives each command 10 s, and some 20 MB must come through a slow line."""

BUNDLE_LIMIT_BYTES = 1 << 30
"""A bundle is 5 to 60 MB packed; more than this is not one."""

TARGET = re.compile(
    r"ssh://(?:(?P<user>[\w.][\w.@+-]*)@)?(?P<host>[\w.][\w.-]*|\[[\w:.%]+\])(?::(?P<port>\d{1,5}))?/?",
    re.ASCII,
)
"""No part may begin with a dash, which ssh would take for an option: CVE-2017-1000117 in others."""


def open_ssh(target: str, probe: bool = False) -> BundleHost:
    """The machine at ssh://[user@]host[:port]. Raises TargetError, quoting what ssh said."""
    import tempfile

    match = TARGET.fullmatch(target)
    if match is None:
        raise TargetError(f"{target!r} is no ssh target", "write it as ssh://[user@]host[:port]")
    with tempfile.TemporaryFile() as bundle:
        code, said = _collect(_command(match, probe), bundle)
        if code or not bundle.tell():
            raise _failure(target, code, said)
        bundle.seek(0)
        return _read(bundle, target)


def _command(match: re.Match[str], probe: bool) -> list[str]:
    """The words of the ssh command. BatchMode: never ask for a password; host keys are checked as always."""
    host = match["host"].strip("[]")
    return [
        "ssh",
        *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}"),
        *("-o", "ServerAliveInterval=15", "-T"),
        *(("-p", match["port"]) if match["port"] else ()),
        *(("-l", match["user"]) if match["user"] else ()),
        "--",
        host,
        "python3 - -o -" if probe else "python3 - -o - --no-probe",
    ]


def _collect(command: list[str], bundle: IO[bytes]) -> tuple[int, str]:
    """Run the collector over there into a file here. Its exit code, and the last it said.

    What the far side says is shown as it comes: it is the collector's progress."""
    import subprocess
    import threading

    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    except FileNotFoundError:
        raise TargetError("ssh is not installed here", "install openssh-client") from None
    assert child.stdin and child.stdout and child.stderr  # they are pipes
    said: list[str] = []
    writer = threading.Thread(target=_send, args=(child.stdin,), daemon=True)
    talker = threading.Thread(target=_show, args=(child.stderr, said), daemon=True)
    timer = threading.Timer(COLLECT_TIMEOUT_S, child.kill)
    for thread in (writer, talker, timer):
        thread.start()
    try:
        left = BUNDLE_LIMIT_BYTES
        while block := child.stdout.read(1 << 20):
            bundle.write(block)
            left -= len(block)
            if left < 0:
                child.kill()
                raise TargetError(f"more than {BUNDLE_LIMIT_BYTES >> 30} GiB came back: this is no bundle")
        code = child.wait()
    finally:
        timed_out = not timer.is_alive()
        timer.cancel()
    talker.join(1)
    if timed_out:
        raise TargetError(f"no bundle came back within {COLLECT_TIMEOUT_S} s", "run gdr collect there")
    return code, said[-1] if said else ""


def _send(pipe: IO[bytes]) -> None:
    """The program, to the far side's interpreter. If that is gone, ssh says so itself."""
    try:
        pipe.write(collector_program())
        pipe.close()
    except BrokenPipeError:
        return


def _show(pipe: IO[bytes], said: list[str]) -> None:
    for line in pipe:
        text = "".join(letter for letter in line.decode("utf-8", "replace") if letter.isprintable())
        if text:
            print(text, file=sys.stderr, flush=True)
            said.append(text)
            del said[:-20]


def _failure(target: str, code: int, said: str) -> TargetError:
    if code == 127:  # the shell's word for a program that it does not find: POSIX 2.8.2
        hint = "run nvidia-bug-report.sh or sos report there, and name its file"
        return TargetError(f"{target} has no python3", hint)
    if code == 255:  # ssh(1), EXIT STATUS
        return TargetError(f"{target} cannot be reached: {said or 'ssh failed'}", "try: ssh -v " + target)
    why = said or f"exit code {code}"
    return TargetError(f"collecting on {target} failed: {why}", "run gdr collect there")


def _read(bundle: IO[bytes], target: str) -> BundleHost:
    from gdrkit.evidence.archive import BLOCK, is_header
    from gdrkit.evidence.stream import open_stream
    from gdrkit.evidence.tarball import open_tarball

    stream = open_stream(bundle, target)
    head = stream.peek(BLOCK)
    if not is_header(head):
        words = " ".join(head[:80].decode("utf-8", "replace").split())
        words = "".join(letter for letter in words if letter.isprintable())
        raise TargetError(
            f"{target} sent no bundle but: {words}", "look for what prints in its shell profile"
        )
    return open_tarball(stream, target, source="ssh")


def collector_program() -> bytes:
    """The collector as one Python program, for `python3 -`, which cannot be given an archive.

    The archive is inside, and is put where no file system keeps it: memfd_create(2)."""
    import binascii

    from gdrkit.agent.collect.pyz import archive

    packed = binascii.b2a_base64(archive(), newline=False).decode()
    return _BOOTSTRAP.replace("ARCHIVE", packed).encode()


_BOOTSTRAP = """\
import binascii, os, sys, tempfile
if sys.version_info < (3, 8):
    sys.exit("gdr-collect needs Python 3.8 or later; this is %d.%d" % sys.version_info[:2])
try:
    place = open(os.memfd_create("gdr-collect"), "w+b")
    path = "/proc/self/fd/%d" % place.fileno()
except (AttributeError, OSError):
    place = tempfile.NamedTemporaryFile(prefix="gdr-collect.")
    path = place.name
place.write(binascii.a2b_base64("ARCHIVE"))
place.flush()
sys.path.insert(0, path)
from gdrkit.agent.collect import main
sys.exit(main())
"""
