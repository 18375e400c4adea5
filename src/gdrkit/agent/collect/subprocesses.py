"""Running commands as children: no input, bounded output, a limit of time, and no shell."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import time
from typing import Dict, List, NamedTuple, Optional, Sequence

STDERR_LIMIT_BYTES = 2048
_SEARCH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/lib/wsl/lib")
_KILLED_WAIT_S = 0.5


class CommandResult(NamedTuple):
    """What became of a command."""

    status: str  # found, failed, not-installed, timed-out, truncated
    exit_code: Optional[int]
    output: bytes
    complaint: str  # what it said on stderr; of a failed one that was silent there, what it printed


def find(program: str, path: Optional[str] = None) -> Optional[str]:
    """Where a program is; sbin is searched too, which is not in the PATH of ordinary users."""
    return shutil.which(program, path=search_path() if path is None else path)


def search_path() -> str:
    """PATH, and after it the system's folders."""
    return os.pathsep.join([*filter(None, os.environ.get("PATH", "").split(os.pathsep)), *_SEARCH])


def run(
    argv: Sequence[str], timeout_s: float, limit_bytes: int, path: Optional[str] = None
) -> CommandResult:
    """Run a command to its end, or to the limits."""
    program = find(argv[0], path)
    if program is None:
        return CommandResult("not-installed", None, b"", "")
    try:
        child = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        return CommandResult("failed", None, b"", error.strerror or str(error))
    return _finished(child, timeout_s, limit_bytes)


def _environment() -> Dict[str, str]:
    kept = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "HOME")
    chosen = {name: os.environ[name] for name in kept if name in os.environ}
    return {
        **chosen,
        "PATH": search_path(),
        "LC_ALL": "C",
        "TERM": "dumb",
        "SYSTEMD_COLORS": "0",
        "PAGER": "cat",
    }


def _finished(child: "subprocess.Popen[bytes]", timeout_s: float, limit_bytes: int) -> CommandResult:
    assert child.stdout is not None and child.stderr is not None
    deadline = time.monotonic() + timeout_s
    output: List[bytes] = []
    complaint: List[bytes] = []
    room = limit_bytes
    status = ""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, output)
        selector.register(child.stderr, selectors.EVENT_READ, complaint)
        while selector.get_map() and not status:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                status = "timed-out"
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.data is output:
                    output.append(chunk[:room])
                    room -= len(output[-1])
                    status = status or ("truncated" if len(output[-1]) < len(chunk) else "")
                elif sum(map(len, complaint)) < STDERR_LIMIT_BYTES:
                    complaint.append(chunk)
    code = _ended(child, 0.0 if status else max(0.0, deadline - time.monotonic()))
    status = status or ("timed-out" if code is None else "failed" if code else "found")
    said = b"".join(complaint) or (b"".join(output) if status == "failed" else b"")
    words = said[:STDERR_LIMIT_BYTES].decode("utf-8", "replace").strip()
    return CommandResult(status, None if status == "timed-out" else code, b"".join(output), words)


def _ended(child: "subprocess.Popen[bytes]", patience_s: float) -> Optional[int]:
    """The exit code; None if it had to be killed. A child stuck in the kernel is not waited for."""
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    child.stderr.close()
    try:
        return child.wait(patience_s)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(child.pid, 9)
    except (ProcessLookupError, PermissionError):
        child.kill()
    try:
        child.wait(_KILLED_WAIT_S)
    except subprocess.TimeoutExpired:
        child.returncode = -9  # so that nobody waits for it at exit
    return None
