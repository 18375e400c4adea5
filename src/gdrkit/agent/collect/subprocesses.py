"""Run commands without input and shell, with limited output and a timeout."""

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
    """The result of a command."""

    status: str  # found, failed, not-installed, timed-out, truncated
    exit_code: Optional[int]
    output: bytes
    complaint: str  # stderr; if that is empty and the command failed, stdout


def find(program: str, path: Optional[str] = None) -> Optional[str]:
    """The path of a program; searches also sbin, which is not in the PATH of ordinary users."""
    return shutil.which(program, path=search_path() if path is None else path)


def search_path() -> str:
    """PATH followed by the system's folders."""
    return os.pathsep.join([*filter(None, os.environ.get("PATH", "").split(os.pathsep)), *_SEARCH])


def run(
    argv: Sequence[str], timeout_s: float, limit_bytes: int, path: Optional[str] = None
) -> CommandResult:
    """Run a command until it ends or reaches a limit."""
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
    left = limit_bytes
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
                    output.append(chunk[:left])
                    left -= len(output[-1])
                    status = status or ("truncated" if len(output[-1]) < len(chunk) else "")
                elif sum(map(len, complaint)) < STDERR_LIMIT_BYTES:
                    complaint.append(chunk)
    code = _ended(child, 0.0 if status else max(0.0, deadline - time.monotonic()))
    status = status or ("timed-out" if code is None else "failed" if code else "found")
    message = b"".join(complaint) or (b"".join(output) if status == "failed" else b"")
    text = message[:STDERR_LIMIT_BYTES].decode("utf-8", "replace").strip()
    return CommandResult(status, None if status == "timed-out" else code, b"".join(output), text)


def _ended(child: "subprocess.Popen[bytes]", wait_s: float) -> Optional[int]:
    """The exit code; None if the child was killed. Does not wait for a child that hangs in the kernel."""
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    child.stderr.close()
    try:
        return child.wait(wait_s)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(child.pid, 9)
    except (ProcessLookupError, PermissionError):
        child.kill()
    try:
        child.wait(_KILLED_WAIT_S)
    except subprocess.TimeoutExpired:
        child.returncode = -9  # so that Python does not wait for it at exit
    return None
