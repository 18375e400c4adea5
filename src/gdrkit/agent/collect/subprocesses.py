"""Run commands without input and shell, with limited output and a timeout.

The caller's PATH does not count, nor for root the rest of the environment: with PATH=.: a program in the
current folder would run as root.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import stat
import subprocess
import threading
import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Set

from ..pipes import kill_group

STDERR_LIMIT_BYTES = 2048
_SEARCH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/lib/wsl/lib")
"""Folders where only root writes: file-hierarchy(7); WSL's has nvidia-smi."""
LOADING = {"nvidia-smi": ("/proc/driver/nvidia/version", "/dev/dxg")}
"""Programs that load a kernel module if it is not loaded: one of the files shows that it is. NVIDIA's
libraries start nvidia-modprobe(1) for that; WSL has no module, but /dev/dxg."""
WOULD_LOAD = "not run: it would load a kernel module"


_running: "Set[subprocess.Popen[bytes]]" = set()
_starting = threading.Lock()


class CommandResult(NamedTuple):
    """The result of a command."""

    status: str  # found, failed, not-installed, timed-out, truncated
    exit_code: Optional[int]
    output: bytes
    complaint: str  # stderr; if that is empty and the command failed, stdout


def find(program: str, path: Optional[str] = None) -> Optional[str]:
    """The absolute path of a program, in the system's folders if `path` names no others."""
    return shutil.which(program, path=search_path() if path is None else path)


def search_path() -> str:
    """The system's folders, as PATH."""
    return os.pathsep.join(_SEARCH)


def run(
    argv: Sequence[str], timeout_s: float, limit_bytes: int, path: Optional[str] = None
) -> CommandResult:
    """Run a command until it ends or reaches a limit. One that would load a kernel module is not run."""
    program = find(argv[0], path)
    if program is None:
        return CommandResult("not-installed", None, b"", "")
    if argv[0] in LOADING and not any(os.path.exists(shown) for shown in LOADING[argv[0]]):
        return CommandResult("failed", None, b"", WOULD_LOAD)
    try:
        with _starting:
            child = subprocess.Popen(
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                cwd="/",
                start_new_session=True,
            )
            _running.add(child)
    except OSError as error:
        return CommandResult("failed", None, b"", error.strerror or str(error))
    try:
        return _finished(child, timeout_s, limit_bytes)
    except BaseException:  # an interrupt does not reach a child in its own session
        _ended(child, 0.0)
        raise
    finally:
        _running.discard(child)


def kill_all() -> None:
    """Kill every command that a thread still runs, with its children: the command has ended."""
    with _starting:
        for child in tuple(_running):
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)


def _environment() -> Dict[str, str]:
    root = os.geteuid() == 0
    kept = ("CUDA_VISIBLE_DEVICES",) if root else ("CUDA_VISIBLE_DEVICES", "HOME")
    chosen = {name: os.environ[name] for name in kept if name in os.environ}
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    trusted = [folder for folder in libraries if folder and (not root or _is_roots(folder))]
    if trusted:  # images for GPUs name libcuda's folder so
        chosen["LD_LIBRARY_PATH"] = os.pathsep.join(trusted)
    return {
        **chosen,
        "PATH": search_path(),
        "LC_ALL": "C",
        "TERM": "dumb",
        "SYSTEMD_COLORS": "0",
        "PAGER": "cat",
    }


def _is_roots(folder: str) -> bool:
    """Whether only root can write to a folder, and to each above it."""
    if not folder.startswith("/"):
        return False
    while True:
        try:
            found = os.lstat(folder)
        except OSError:
            return False
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
            return False
        if folder == "/":
            return True
        folder = os.path.dirname(folder)


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
            ready = selector.select(deadline - time.monotonic())
            if not ready or time.monotonic() > deadline:  # the latter for one that never stops printing
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
        kill_group(child)
        return None
